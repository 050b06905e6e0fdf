package org.ep4j.cli.text;

/** Text in lines that fit beside the tables. */
public final class Wrapped {
  private Wrapped() {}

  /** The text as less important lines, each with a newline. */
  public static String faint(Style style, String text) {
    StringBuilder lines = new StringBuilder();
    for (String line : lines(text, Table.WIDTH).split("\n", -1)) {
      lines.append(style.faint(line)).append('\n');
    }
    return lines.toString();
  }

  /** The text with newlines between words, so that lines have at most {@code width} characters. */
  public static String lines(String text, int width) {
    StringBuilder lines = new StringBuilder();
    int used = 0;
    for (String word : text.split(" ", -1)) {
      boolean breaks = used > 0 && used + 1 + word.length() > width;
      lines.append(used == 0 ? "" : breaks ? "\n" : " ").append(word);
      used = used == 0 || breaks ? word.length() : used + 1 + word.length();
    }
    return lines.toString();
  }
}
