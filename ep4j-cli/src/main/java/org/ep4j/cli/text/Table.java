package org.ep4j.cli.text;

import java.util.ArrayList;
import java.util.List;

/**
 * Rows of text in columns: the first is left-aligned, the others (usually numbers) right-aligned. A
 * heading may have several lines. Columns that do not fit beside each other continue below, beside
 * the first column again.
 */
public final class Table {
  /** Columns of characters of a line: those of a usual terminal window. */
  public static final int WIDTH = 100;

  private static final String GAP = "  ";

  private final List<List<String>> headings;
  private final List<List<String>> rows = new ArrayList<>();

  /** A table with these columns. */
  public Table(String... header) {
    headings = List.of(header).stream().map(heading -> heading.lines().toList()).toList();
  }

  /** Adds a row with a cell for each column. */
  public void row(String... cells) {
    if (cells.length != headings.size()) {
      throw new IllegalArgumentException(
          "a row of %d cells for %d columns".formatted(cells.length, headings.size()));
    }
    rows.add(List.of(cells));
  }

  /** The headings, each in one line. */
  public List<String> headings() {
    return headings.stream().map(lines -> String.join(" ", lines)).toList();
  }

  /** The rows, a cell for each column. */
  public List<List<String>> rows() {
    return List.copyOf(rows);
  }

  /** The lines with newlines, header first. */
  public String render(Style style) {
    StringBuilder text = new StringBuilder();
    int next = 1;
    do {
      List<Integer> columns = new ArrayList<>(List.of(0));
      int width = width(0);
      while (next < headings.size()
          && (columns.size() == 1 || width + GAP.length() + width(next) <= WIDTH)) {
        width += GAP.length() + width(next);
        columns.add(next);
        next++;
      }
      text.append(text.isEmpty() ? "" : "\n");
      render(columns, style, text);
    } while (next < headings.size());
    return text.toString();
  }

  private void render(List<Integer> columns, Style style, StringBuilder text) {
    int lines = columns.stream().mapToInt(column -> headings.get(column).size()).max().orElse(0);
    for (int line = 0; line < lines; line++) {
      List<String> cells = new ArrayList<>();
      for (int column : columns) {
        List<String> heading = headings.get(column);
        int at = line - (lines - heading.size());
        cells.add(at < 0 ? "" : heading.get(at));
      }
      text.append(style.bold(line(columns, cells))).append('\n');
    }
    for (List<String> row : rows) {
      text.append(line(columns, columns.stream().map(row::get).toList())).append('\n');
    }
  }

  private int width(int column) {
    int width = 0;
    for (String line : headings.get(column)) {
      width = Math.max(width, line.length());
    }
    for (List<String> row : rows) {
      width = Math.max(width, row.get(column).length());
    }
    return width;
  }

  private String line(List<Integer> columns, List<String> cells) {
    StringBuilder line = new StringBuilder();
    for (int i = 0; i < cells.size(); i++) {
      String cell = cells.get(i);
      String blanks = " ".repeat(width(columns.get(i)) - cell.length());
      line.append(i == 0 ? cell + blanks : GAP + blanks + cell);
    }
    return line.toString().stripTrailing();
  }
}
