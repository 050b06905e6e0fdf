package org.ep4j.engine.host.kernel;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A compilation of a method by C2, as the JVM's option {@code LogCompilation} reports it.
 *
 * @param holder simple name of the class
 * @param bytes size of the method's bytecode
 * @param nodes number of nodes that C2 had created after it had parsed the method and all that it
 *     inlined
 * @param metTheLimit whether a method was not inlined because there were too many nodes
 */
record Compilation(String holder, String method, int bytes, int nodes, boolean metTheLimit) {
  private static final Pattern TASK =
      Pattern.compile("<task .*method='\\S*\\.(\\S+) (\\S+) .* bytes='(\\d+)'.*");
  private static final Pattern PARSED = Pattern.compile("<parse_done nodes='(\\d+)'.*");

  /** The compilations in a log whose class has {@code part} in its name. */
  static List<Compilation> read(Path log, String part) throws IOException {
    List<Compilation> all = new ArrayList<>();
    Matcher task = null;
    int nodes = 0;
    boolean limit = false;
    // Names of other programs' files may be in any charset.
    for (String line : Files.readAllLines(log, StandardCharsets.ISO_8859_1)) {
      Matcher parsed = PARSED.matcher(line);
      if (line.startsWith("<task ")) {
        task = TASK.matcher(line);
        nodes = 0;
        limit = false;
      } else if (parsed.matches()) {
        nodes = Math.max(nodes, Integer.parseInt(parsed.group(1)));
      } else if (line.contains("reason='NodeCountInliningCutoff'")) {
        limit = true;
      } else if (line.startsWith("</task>")) {
        if (task != null
            && task.matches()
            && nodes > 0
            && task.group().contains(part)) { // C1 logs none
          all.add(
              new Compilation(
                  task.group(1), task.group(2), Integer.parseInt(task.group(3)), nodes, limit));
        }
        task = null;
      }
    }
    return all;
  }
}
