package org.ep4j.cli.report;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.ep4j.cli.text.Table;

/** Text and data inside HTML. Names of machines and files are hostile until escaped. */
public final class Html {
  private Html() {}

  /** The text for an element or a quoted attribute. */
  public static String text(String text) {
    return text.replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
        .replace("\"", "&quot;")
        .replace("'", "&#39;");
  }

  /** The same for a text of a file that may come from anywhere. */
  public static String foreign(String text) {
    return text(Fields.printable(text));
  }

  /** A table that scrolls sideways on a narrow screen; the first column names the row. */
  public static String table(List<String> headings, List<List<String>> rows, String kind) {
    StringBuilder html = new StringBuilder("<div class=\"scroll\"><table class=\"");
    html.append(kind).append("\"><thead><tr>");
    headings.forEach(
        heading -> html.append("<th scope=\"col\">").append(text(heading)).append("</th>"));
    html.append("</tr></thead><tbody>\n");
    for (List<String> row : rows) {
      html.append("<tr><th scope=\"row\">").append(foreign(row.getFirst())).append("</th>");
      row.stream()
          .skip(1)
          .forEach(cell -> html.append("<td>").append(foreign(cell)).append("</td>"));
      html.append("</tr>\n");
    }
    return html.append("</tbody></table></div>\n").toString();
  }

  /** The same table as in a terminal. */
  public static String table(Table table) {
    List<List<String>> rows =
        table.rows().stream().map(row -> row.stream().map(Html::cell).toList()).toList();
    return table(table.headings(), rows, "numbers");
  }

  /** A cell of a table in a terminal, with the signs that a page has for a unit and for nothing. */
  public static String cell(String cell) {
    return cell.equals("-") ? "–" : cell.replace(" us", " µs");
  }

  /** A list of words with their meanings. */
  public static String definitions(Map<String, String> entries) {
    StringBuilder html = new StringBuilder("<dl>\n");
    entries.forEach(
        (word, meaning) ->
            html.append("<dt>")
                .append(text(word))
                .append("</dt><dd>")
                .append(text(meaning))
                .append("</dd>\n"));
    return html.append("</dl>\n").toString();
  }

  /**
   * JSON text for a script element: without the characters that could end the element or begin a
   * comment. They occur in strings of JSON only, where an escape means the same.
   */
  static String data(String json) {
    return json.replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("&", "\\u0026")
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029");
  }

  /** A program for a script element. */
  static String program(String program) {
    if (program.contains("</script") || program.contains("<!--")) {
      throw new IllegalArgumentException("the program cannot stand in a script element");
    }
    return program;
  }

  /** The source expression of a content security policy that allows exactly this program. */
  static String hash(String program) {
    try {
      byte[] digest =
          MessageDigest.getInstance("SHA-256").digest(program.getBytes(StandardCharsets.UTF_8));
      return "'sha256-" + Base64.getEncoder().encodeToString(digest) + "'";
    } catch (NoSuchAlgorithmException e) {
      throw new AssertionError(e);
    }
  }
}
