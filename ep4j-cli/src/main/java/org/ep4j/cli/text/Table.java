package org.ep4j.cli.text;

import java.util.ArrayList;
import java.util.List;

/**
 * Rows of text in columns: the first is left-aligned, the others (usually numbers) right-aligned.
 */
public final class Table {
  private static final String GAP = "  ";

  private final List<String> header;
  private final List<List<String>> rows = new ArrayList<>();

  /** A table with these columns. */
  public Table(String... header) {
    this.header = List.of(header);
  }

  /** Adds a row with a cell for each column. */
  public void row(String... cells) {
    if (cells.length != header.size()) {
      throw new IllegalArgumentException(
          "a row of %d cells for %d columns".formatted(cells.length, header.size()));
    }
    rows.add(List.of(cells));
  }

  /** The lines with newlines, header first. */
  public String render(Style style) {
    int[] widths = new int[header.size()];
    measure(header, widths);
    rows.forEach(row -> measure(row, widths));
    StringBuilder text = new StringBuilder();
    text.append(style.bold(line(header, widths))).append('\n');
    for (List<String> row : rows) {
      text.append(line(row, widths)).append('\n');
    }
    return text.toString();
  }

  private static void measure(List<String> cells, int[] widths) {
    for (int i = 0; i < widths.length; i++) {
      widths[i] = Math.max(widths[i], cells.get(i).length());
    }
  }

  private static String line(List<String> cells, int[] widths) {
    StringBuilder line = new StringBuilder();
    for (int i = 0; i < widths.length; i++) {
      String cell = cells.get(i);
      String blanks = " ".repeat(widths[i] - cell.length());
      line.append(i == 0 ? cell + blanks : GAP + blanks + cell);
    }
    return line.toString().stripTrailing();
  }
}
