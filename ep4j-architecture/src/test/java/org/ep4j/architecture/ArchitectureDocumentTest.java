package org.ep4j.architecture;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Predicate;
import java.util.regex.MatchResult;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/**
 * The page about the architecture is true: its modules, rooms and files exist, it leaves none of
 * the modules and rooms out, and a token passes as many files as the page states.
 */
class ArchitectureDocumentTest {
  private static final Path PAGE = Repository.repository().resolve("docs/architecture.md");

  /** Longer, the page is no overview. */
  private static final int MAX_LINES = 150;

  private static final String KERNELS = "ep4j-cuda/src/main/resources/org/ep4j/cuda/kernels";
  private static final Pattern FILE = Pattern.compile("\\]\\((\\.\\./[^)#]+)\\)");
  private static final Pattern CODE = Pattern.compile("`([^`]+)`");
  private static final Pattern KERNEL_FILE = Pattern.compile("`(?:\\w+/)*(\\w+\\.cuh?)`");
  private static final Pattern STEP = Pattern.compile("\\| (\\d+) \\|.*");

  /**
   * The files of one kind that a token passes.
   *
   * @param section heading of its steps
   * @param kind of the files, as in the page
   * @param ending of the files
   * @param limit the length that readers can follow
   * @param known the length today: a walk beyond its limit may shrink but not grow
   */
  private record Walk(String section, String kind, String ending, int limit, int known) {}

  private static final List<Walk> WALKS =
      List.of(
          new Walk("A token on the host", "Java", "\\.java", 25, 25),
          new Walk("A token on GPUs", "Java", "\\.java", 30, 25),
          new Walk("A token on GPUs", "kernel", "\\.cuh?", 20, 19));

  @Test
  void everyFileExists() throws IOException {
    String page = Files.readString(PAGE);
    Set<String> files = matches(FILE, page);
    assertThat(files).hasSizeGreaterThan(50);
    assertThat(files).allMatch(file -> Files.isRegularFile(PAGE.resolveSibling(file)));
    Set<String> kernels;
    try (Stream<Path> tree = Files.walk(Repository.repository().resolve(KERNELS))) {
      kernels = tree.map(file -> file.getFileName().toString()).collect(Collectors.toSet());
    }
    assertThat(kernels).containsAll(matches(KERNEL_FILE, page));
  }

  @Test
  void thePageHasEveryModule() throws IOException {
    assertThat(firstCells("Modules"))
        .containsExactlyInAnyOrderElementsOf(
            names("", child -> Files.exists(child.resolve("pom.xml"))));
  }

  @Test
  void thePageHasEveryRoom() throws IOException {
    Set<String> rooms = new TreeSet<>();
    Set<String> folders = new TreeSet<>();
    for (String name : firstCells("Rooms")) {
      if (name.startsWith("kernels/")) {
        folders.add(name.substring("kernels/".length()));
      } else {
        rooms.add(name.equals("org.ep4j") ? name : "org.ep4j." + name);
      }
    }
    assertThat(rooms).containsExactlyInAnyOrderElementsOf(RoomsTest.ROOMS.keySet());
    assertThat(folders).containsExactlyInAnyOrderElementsOf(names(KERNELS, Files::isDirectory));
    Set<String> modules = firstCells("Modules");
    assertThat(rooms)
        .allMatch(
            room ->
                modules.stream()
                    .map(module -> module + "/src/main/java/" + room.replace('.', '/'))
                    .anyMatch(place -> Files.isDirectory(Repository.repository().resolve(place))));
  }

  @Test
  void aTokenPassesAsManyFilesAsStated() throws IOException {
    for (Walk walk : WALKS) {
      List<String> steps = steps(walk.section);
      Set<String> files =
          matches(FILE, String.join("\n", steps)).stream()
              .filter(file -> file.matches(".*" + walk.ending))
              .collect(Collectors.toSet());
      String stated = "(\\d+) " + walk.kind + " files \\(limit (\\d+)\\)";
      Matcher text = Pattern.compile(stated).matcher(section(walk.section));
      assertThat(text.find()).as("%s: %s", walk.section, stated).isTrue();
      assertThat(files)
          .as("%s: %s", walk.section, text.group())
          .hasSize(Integer.parseInt(text.group(1)))
          .hasSizeLessThanOrEqualTo(Math.max(walk.limit, walk.known));
      assertThat(text.group(2)).as(text.group()).isEqualTo(String.valueOf(walk.limit));
    }
  }

  @Test
  void stepsAreInOrder() throws IOException {
    for (Walk walk : WALKS) {
      List<Integer> numbers = new ArrayList<>();
      for (String step : steps(walk.section)) {
        Matcher number = STEP.matcher(step);
        assertThat(number.matches()).as(step).isTrue();
        assertThat(matches(FILE, step)).as("files of step %s", number.group(1)).isNotEmpty();
        numbers.add(Integer.valueOf(number.group(1)));
      }
      assertThat(numbers).hasSizeGreaterThan(10);
      assertThat(numbers).isEqualTo(IntStream.rangeClosed(1, numbers.size()).boxed().toList());
    }
  }

  @Test
  void thePageIsShort() throws IOException {
    assertThat(Files.readAllLines(PAGE)).hasSizeLessThanOrEqualTo(MAX_LINES);
  }

  private static List<String> steps(String heading) throws IOException {
    return section(heading).lines().filter(line -> STEP.matcher(line).matches()).toList();
  }

  /** The text below a heading, up to the next one. */
  private static String section(String heading) throws IOException {
    String begin = "\n## " + heading + "\n";
    String page = Files.readString(PAGE);
    assertThat(page).contains(begin);
    String rest = page.substring(page.indexOf(begin) + begin.length());
    int end = rest.indexOf("\n## ");
    return end < 0 ? rest : rest.substring(0, end);
  }

  /** The names in the first cells of the table below a heading. */
  private static Set<String> firstCells(String heading) throws IOException {
    Set<String> names = new TreeSet<>();
    for (String line : section(heading).lines().filter(line -> line.startsWith("| `")).toList()) {
      names.addAll(matches(CODE, line.substring(0, line.indexOf(" | "))));
    }
    return names;
  }

  /** Names of the entries of a directory that {@code wanted} accepts. */
  private static List<String> names(String directory, Predicate<Path> wanted) throws IOException {
    try (Stream<Path> entries = Files.list(Repository.repository().resolve(directory))) {
      return entries.filter(wanted).map(entry -> entry.getFileName().toString()).toList();
    }
  }

  private static Set<String> matches(Pattern pattern, String text) {
    return pattern
        .matcher(text)
        .results()
        .map((MatchResult match) -> match.group(1))
        .collect(Collectors.toCollection(TreeSet::new));
  }
}
