import java.io.IOException;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.MatchResult;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * What the site generator does not do. Runs from source, by {@code tools/docs}:
 *
 * <ul>
 *   <li>{@code java Site.java stage REPOSITORY DIRECTORY} copies all pages and the files that they
 *       link to, and gives each heading the anchor that other pages link to.
 *   <li>{@code java Site.java check DIRECTORY} checks every internal link of the finished site.
 * </ul>
 */
public final class Site {
  private static final List<String> PLACES =
      List.of(
          "",
          "docs",
          "docs/design",
          "docs/observability",
          "docs/performance",
          "docs/archive",
          "benchmarks");

  private static final Pattern LINK = Pattern.compile("\\]\\(([^)#\\s]+)(?:#[^)\\s]+)?\\)");
  private static final Pattern CODE = Pattern.compile("`([^`]+)`");
  private static final Pattern HEADING = Pattern.compile("(#+) (.+)");
  private static final Pattern REFERENCE =
      Pattern.compile("<[a-z]+ [^>]*?\\b(?:href|src)=\"([^\"]*)\"");
  private static final Pattern ANCHOR =
      Pattern.compile("<[a-z0-9]+ [^>]*?\\b(?:id|name)=\"([^\"]+)\"");

  private Site() {}

  public static void main(String... arguments) throws IOException {
    if (arguments.length == 3 && arguments[0].equals("stage")) {
      stage(Path.of(arguments[1]), Path.of(arguments[2]));
    } else if (arguments.length == 2 && arguments[0].equals("check")) {
      check(Path.of(arguments[1]));
    } else {
      System.err.println("usage: Site stage REPOSITORY DIRECTORY | Site check DIRECTORY");
      System.exit(2);
    }
  }

  private static void stage(Path repository, Path directory) throws IOException {
    Set<Path> linked = new TreeSet<>();
    for (String place : PLACES) {
      for (Path page : pages(repository.resolve(place))) {
        String text = Files.readString(page);
        Path relative = repository.relativize(page);
        write(directory.resolve("markdown").resolve(relative), anchored(text));
        if (relative.toString().equals("README.md")) {
          write(directory.resolve("markdown/index.md"), anchored(text));
        }
        for (MatchResult link : LINK.matcher(text).results().toList()) {
          Path target = page.resolveSibling(link.group(1)).normalize();
          if (!link.group(1).contains(":")
              && !link.group(1).endsWith(".md")
              && Files.isRegularFile(target)) {
            linked.add(target);
          }
        }
      }
    }
    for (Path file : linked) {
      Path copy = directory.resolve("resources").resolve(repository.relativize(file));
      Files.createDirectories(copy.getParent());
      Files.copy(file, copy, StandardCopyOption.REPLACE_EXISTING);
    }
    Files.copy(
        repository.resolve("docs/site/site.xml"),
        directory.resolve("site.xml"),
        StandardCopyOption.REPLACE_EXISTING);
  }

  private static List<Path> pages(Path place) throws IOException {
    try (Stream<Path> files = Files.list(place)) {
      return files.filter(file -> file.toString().endsWith(".md")).sorted().toList();
    }
  }

  private static void write(Path file, String text) throws IOException {
    Files.createDirectories(file.getParent());
    Files.writeString(file, text);
  }

  /**
   * The page with an anchor before each heading; behind the first, which gives the page its title.
   */
  private static String anchored(String page) {
    StringBuilder out = new StringBuilder();
    boolean code = false;
    boolean first = true;
    for (String line : page.split("\n", -1)) {
      code ^= line.strip().startsWith("```");
      var heading = HEADING.matcher(line);
      if (code || !heading.matches()) {
        out.append(line.startsWith("|") ? withBars(line) : line).append('\n');
        continue;
      }
      String anchor = "<a id=\"" + anchor(heading.group(2)) + "\"></a>\n";
      out.append(first ? line + "\n\n" + anchor : anchor + "\n" + line + "\n");
      first = false;
    }
    return out.toString();
  }

  /** A row of a table; the generator would show the backslash of an escaped bar in code. */
  private static String withBars(String row) {
    return CODE.matcher(row)
        .replaceAll(
            code -> {
              String text = code.group(1);
              String escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;");
              return Matcher.quoteReplacement(
                  text.contains("\\|")
                      ? "<code>" + escaped.replace("\\|", "&#124;") + "</code>"
                      : code.group());
            });
  }

  /** The anchor of a heading: lower case, words joined by dashes. */
  private static String anchor(String heading) {
    return heading
        .toLowerCase(Locale.ROOT)
        .replaceAll("[^\\p{L}\\p{N} _-]", "")
        .strip()
        .replace(' ', '-');
  }

  /** Checks the pages made of Markdown; Javadoc checks its own. */
  private static void check(Path site) throws IOException {
    List<Path> pages;
    try (Stream<Path> files = Files.walk(site)) {
      pages =
          files
              .filter(file -> file.toString().endsWith(".html"))
              .filter(file -> !file.startsWith(site.resolve("api")))
              .sorted()
              .toList();
    }
    Map<Path, Set<String>> anchors = new HashMap<>();
    List<String> broken = new ArrayList<>();
    int links = 0;
    for (Path page : pages) {
      for (MatchResult found : REFERENCE.matcher(Files.readString(page)).results().toList()) {
        String reference = found.group(1).replace("&amp;", "&");
        if (reference.isEmpty() || reference.matches("(?i)[a-z]+:.*|//.*")) {
          continue;
        }
        links++;
        if (!resolves(page, reference, anchors)) {
          broken.add(site.relativize(page) + ": " + reference);
        }
      }
    }
    broken.forEach(System.err::println);
    if (!broken.isEmpty() || links == 0) {
      System.err.println(broken.size() + " of " + links + " internal links lead nowhere");
      System.exit(1);
    }
    System.out.println(pages.size() + " pages, " + links + " internal links, all lead somewhere");
  }

  private static boolean resolves(Path page, String reference, Map<Path, Set<String>> anchors)
      throws IOException {
    int hash = reference.indexOf('#');
    String path = decoded(hash < 0 ? reference : reference.substring(0, hash));
    String anchor = hash < 0 ? "" : decoded(reference.substring(hash + 1));
    Path target = path.isEmpty() ? page : page.resolveSibling(path).normalize();
    if (!Files.isRegularFile(target)) {
      return false;
    }
    if (anchor.isEmpty() || !target.toString().endsWith(".html")) {
      return true;
    }
    if (!anchors.containsKey(target)) {
      Set<String> found = new HashSet<>();
      ANCHOR.matcher(Files.readString(target)).results().forEach(m -> found.add(m.group(1)));
      anchors.put(target, found);
    }
    return anchors.get(target).contains(anchor);
  }

  private static String decoded(String text) {
    return URLDecoder.decode(text.replace("+", "%2B"), StandardCharsets.UTF_8);
  }
}
