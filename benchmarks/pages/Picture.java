import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Bars of the rows of recorded tables that have a name in the picture. */
final class Picture {
  private static final int WIDTH = 860;
  private static final int LABELS = 235;
  private static final int BARS = 490;
  private static final int ROW = 21;

  private final Map<String, Object> recorded;
  private final StringBuilder body = new StringBuilder();
  private int y = 24;

  Picture(Map<String, Object> recorded) {
    this.recorded = recorded;
  }

  boolean isEmpty() {
    return Values.objects(recorded.get("tables")).stream()
        .allMatch(table -> shown(table).isEmpty());
  }

  String svg() {
    label(0, y, "title", "Microseconds of an operation; less is better");
    y += 22;
    label(
        0,
        y,
        "note",
        recorded.get("machine") + ", " + recorded.get("recorded") + ", minutes apart");
    y += 12;
    Values.objects(recorded.get("tables")).forEach(this::table);
    y += 26;
    int x = 0;
    x = legend(x, "kernel", "kernel alone, or a graph");
    x = legend(x, "call", "whole call");
    body.append(
        "<line class=\"limit\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n"
            .formatted(x + 6, y - 11, x + 6, y + 3));
    label(x + 16, y, "note", "bare pushes of the same rows");
    y += 20;
    label(
        0,
        y,
        "note",
        "A light bar alone: only the whole call was measured. A range is drawn at its middle.");
    return """
    <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="title">
    <title id="title">Microseconds of dispatch and combine: ep4j and other systems</title>
    <style>
    text { font: 13px -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #1f2328 }
    .title { font-weight: bold; font-size: 15px }
    .group { font-weight: bold }
    .note { fill: #59636e }
    .own { fill: #1a7f5a }
    .other { fill: #768390 }
    .call { opacity: 0.45 }
    .limit { stroke: #cf222e; stroke-width: 2 }
    @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .note { fill: #9198a1 }
    .own { fill: #3fb984 }
    .other { fill: #8b98a5 }
    .limit { stroke: #ff7b72 }
    }
    </style>
    """
            .formatted(WIDTH, y + 10)
        + body
        + "</svg>\n";
  }

  private static List<Map<String, Object>> shown(Map<String, Object> table) {
    return Values.objects(table.get("rows")).stream()
        .filter(row -> row.containsKey("shown"))
        .toList();
  }

  private void table(Map<String, Object> table) {
    List<Map<String, Object>> rows = shown(table);
    double max = 0;
    for (Map<String, Object> row : rows) {
      for (int i = 0; i < columns(table); i++) {
        max = Math.max(max, Math.max(value(row, i, "call"), part(row, i)));
      }
    }
    y += 26;
    String title = Values.text(table, "title");
    label(0, y, "group", title.substring(0, title.indexOf(", µs")));
    for (int i = 0; i < columns(table); i++) {
      y += 24;
      label(0, y, "note", String.valueOf(Values.list(table.get("columns")).get(i)));
      group(rows, i, BARS / max);
    }
  }

  /** Columns that are drawn: pairs repeat what the others show. */
  private static int columns(Map<String, Object> table) {
    return (int)
        Values.list(table.get("columns")).stream().filter(column -> !column.equals("pair")).count();
  }

  private void group(List<Map<String, Object>> rows, int column, double scale) {
    int top = y - 13;
    double limit = Double.NaN;
    for (Map<String, Object> row : rows) {
      if (row.get("shown").equals("limit")) {
        limit = value(row, column, "kernel");
      } else if (part(row, column) > 0 || value(row, column, "call") > 0) {
        bar(row, column, scale);
      }
    }
    y -= ROW;
    if (!Double.isNaN(limit)) {
      long x = LABELS + Math.round(limit * scale);
      body.append(
          "<line class=\"limit\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n"
              .formatted(x, top, x, y + 6));
    }
  }

  private void bar(Map<String, Object> row, int column, double scale) {
    String name = Values.text(row, "shown");
    String colour = name.startsWith("ep4j") ? "own" : "other";
    double part = part(row, column);
    double call = value(row, column, "call");
    label(LABELS - 125, y, name.startsWith("ep4j") ? "group" : "", name);
    if (call > 0) {
      rectangle(colour + " call", call * scale);
    }
    if (part > 0) {
      rectangle(colour, part * scale);
    }
    Map<String, Object> figure = Values.object(Values.list(row.get("figures")).get(column));
    String label =
        Stream.of("kernel", "graph", "call")
            .filter(figure::containsKey)
            .map(kind -> MachinePage.range(figure.get(kind)))
            .collect(Collectors.joining(" / "));
    label(LABELS + (int) Math.round(Math.max(part, call) * scale) + 8, y, "", label);
    y += ROW;
  }

  /** The part of a bar that is the GPU's: the kernel, or a period of a graph. */
  private static double part(Map<String, Object> row, int column) {
    return Math.max(value(row, column, "kernel"), value(row, column, "graph"));
  }

  private static double value(Map<String, Object> row, int column, String kind) {
    Object figure = Values.list(row.get("figures")).get(column);
    Object value = figure == null ? null : Values.object(figure).get(kind);
    if (value instanceof List<?> bounds) {
      return (Values.number(bounds.get(0)) + Values.number(bounds.get(1))) / 2;
    }
    return value == null ? 0 : Values.number(value);
  }

  private void rectangle(String kind, double width) {
    body.append(
        "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"15\"/>\n"
            .formatted(kind, LABELS, y - 12, Math.round(width)));
  }

  private int legend(int x, String kind, String words) {
    body.append(
        "<rect class=\"own %s\" x=\"%d\" y=\"%d\" width=\"14\" height=\"14\"/>\n"
            .formatted(kind, x, y - 12));
    label(x + 20, y, "note", words);
    return x + 40 + 7 * words.length();
  }

  private void label(int x, int height, String kind, String words) {
    String escaped = words.replace("&", "&amp;").replace("<", "&lt;");
    body.append(
        "<text class=\"%s\" x=\"%d\" y=\"%d\">%s</text>\n".formatted(kind, x, height, escaped));
  }
}
