package org.ep4j.cli.plan;

import java.util.List;
import org.ep4j.cli.report.Html;
import org.ep4j.cli.text.Units;

/** The body of a page while it is written, as HTML. */
final class PageText {
  private final StringBuilder html = new StringBuilder();

  PageText() {}

  /** Adds HTML. */
  void add(String more) {
    html.append(more);
  }

  @Override
  public String toString() {
    return html.toString();
  }

  void heading(String heading) {
    html.append("<h3>").append(Html.text(heading)).append("</h3>\n");
  }

  void text(String text) {
    html.append("<p>").append(escaped(text)).append("</p>\n");
  }

  void note(String text) {
    html.append("<p class=\"note\">").append(escaped(text)).append("</p>\n");
  }

  /** The text, in which a line does not break between a number and its unit. */
  private static String escaped(String text) {
    return Html.text(text).replaceAll("(\\d) (?=(s|ms|µs|%|GB/s)(\\W|$))", "$1\u00a0");
  }

  static String micros(double micros) {
    return Html.cell(Units.micros(micros));
  }

  static String percent(double share) {
    return Units.fixed(100 * share, 0) + " %";
  }

  /** The word with its number. */
  static String count(int number, String word) {
    return number + " " + word + (number == 1 ? "" : "s");
  }

  static String capital(String text) {
    return Character.toUpperCase(text.charAt(0)) + text.substring(1);
  }

  /** Adds a table of numbers. */
  void table(List<String> headings, List<List<String>> rows) {
    add(Html.table(headings, rows, "numbers"));
  }

  /** Adds a paragraph that begins with a name. */
  void named(String name, String text) {
    add("<p><strong>" + Html.text(capital(name)) + ":</strong> " + escaped(text) + "</p>\n");
  }
}
