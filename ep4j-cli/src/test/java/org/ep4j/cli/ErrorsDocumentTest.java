package org.ep4j.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.ep4j.error.ErrorCode;
import org.junit.jupiter.api.Test;

/** The table of error codes, its page, and their use in the sources. */
class ErrorsDocumentTest {
  private static final Path ROOT = Path.of("..");
  private static final Path TABLE =
      ROOT.resolve("ep4j-core/src/main/java/org/ep4j/error/ErrorCode.java");
  private static final Pattern SECTION =
      Pattern.compile("(?m)^  // (\\d{4}) to (\\d{4}): ((?:[^\\n]|\\n  // (?!\\d{4} to ))+)\\.\\n");
  private static final Pattern USE = Pattern.compile("\\bEP4J-(\\d{4})\\b|\\b([A-Z][A-Z0-9_]+)\\b");

  /**
   * Begins with a capital letter, code, or the name of a program or call; ends with a full stop.
   */
  private static final Pattern SENTENCES =
      Pattern.compile(
          "(?:[A-Z`]|ep4j |lib\\w+ |nv\\w+ |[a-z]\\w*\\(|[a-z]+[A-Z]\\w* )[^\\n]*[^\\s.]\\.");

  /** Multiples of this are general codes of an area, for errors without a more precise code. */
  private static final int GENERAL = 1000;

  private static final List<String> OTHER_SOURCES =
      List.of(
          "ep4j",
          "tools/common.sh",
          "tools/bundle",
          "tools/bundle-launcher",
          "tools/rxe-vm",
          "ep4j-c/src/main/resources/org/ep4j/c/ep4j.h");

  @Test
  void thePageIsTheOutputOfTheCommand() throws IOException {
    Path page = ROOT.resolve("docs/errors.md");
    assumeThat(page).as("missing in a bundle").exists();
    String printed = CommandLineRun.of("errors", "--markdown").out();
    assertThat(Files.readString(page))
        .as("docs/errors.md; make it with LC_ALL=C.UTF-8 ./ep4j errors --markdown >docs/errors.md")
        .isEqualTo(printed);
  }

  @Test
  void numbersAreUniqueAndEachIsInASection() {
    List<Integer> numbers = Arrays.stream(ErrorCode.values()).map(ErrorCode::number).toList();
    assertThat(numbers).doesNotHaveDuplicates();
    List<ErrorCode> listed =
        ErrorsDocument.SECTIONS.stream().flatMap(section -> section.codes().stream()).toList();
    assertThat(listed).containsExactlyInAnyOrder(ErrorCode.values());
  }

  @Test
  void sectionsAreThoseOfTheSource() throws IOException {
    assumeThat(ROOT.resolve("pom.xml")).as("missing in a bundle").exists();
    List<ErrorsDocument.Section> written = new ArrayList<>();
    for (MatchResult section : SECTION.matcher(Files.readString(TABLE)).results().toList()) {
      written.add(
          new ErrorsDocument.Section(
              Integer.parseInt(section.group(1)),
              Integer.parseInt(section.group(2)),
              section.group(3).replace("\n  //", "")));
    }
    assertThat(written).isEqualTo(ErrorsDocument.SECTIONS);
  }

  @Test
  void causesAndRemediesAreSentences() {
    for (ErrorCode code : ErrorCode.values()) {
      assertThat(code.cause()).as("cause of %s", code).matches(SENTENCES);
      assertThat(code.remedy()).as("remedy of %s", code).matches(SENTENCES);
      assertThat(code.cause() + code.remedy()).as(code.id()).doesNotContain("  ", "\n");
    }
  }

  @Test
  void everyCodeIsUsed() throws IOException {
    assumeThat(ROOT.resolve("pom.xml")).as("missing in a bundle").exists();
    Set<String> used = new TreeSet<>();
    for (Path file : sources()) {
      for (MatchResult use : USE.matcher(Files.readString(file)).results().toList()) {
        used.add(use.group(1) == null ? use.group(2) : "EP4J-" + use.group(1));
      }
    }
    List<ErrorCode> unused =
        Arrays.stream(ErrorCode.values())
            .filter(code -> code.number() % GENERAL != 0)
            .filter(code -> !used.contains(code.name()) && !used.contains(code.id()))
            .toList();
    assertThat(unused).as("codes that no source uses").isEmpty();
  }

  private static List<Path> sources() throws IOException {
    List<Path> sources = new ArrayList<>();
    try (Stream<Path> modules = Files.list(ROOT)) {
      for (Path main :
          modules
              .map(module -> module.resolve("src/main/java"))
              .filter(Files::isDirectory)
              .toList()) {
        try (Stream<Path> files = Files.walk(main)) {
          files
              .filter(file -> file.toString().endsWith(".java") && !file.endsWith("ErrorCode.java"))
              .forEach(sources::add);
        }
      }
    }
    OTHER_SOURCES.forEach(source -> sources.add(ROOT.resolve(source)));
    return sources;
  }

  @Test
  void aCodeIsExplainedWithAndWithoutItsPrefix() {
    for (String argument : List.of("EP4J-1900", "ep4j-1900", "1900")) {
      CommandLineRun run = CommandLineRun.of("errors", argument);
      assertThat(run.code()).as(run.err()).isEqualTo(ExitCodes.OK);
      assertThat(run.out())
          .contains("EP4J-1900", ErrorCode.BAD_OPTION_VALUE.cause())
          .contains(ErrorCode.BAD_OPTION_VALUE.remedy());
    }
    assertThat(CommandLineRun.of("errors").out()).contains("EP4J-1000", "EP4J-8900");
  }

  @Test
  void anUnknownCodeIsWrongUsageAndTheNearestIsNamed() {
    CommandLineRun run = CommandLineRun.of("errors", "8901");
    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains(ErrorCode.UNKNOWN_ERROR_CODE.id()).contains("EP4J-8900");
    for (List<String> wrong : List.of(List.of("pigeon"), List.of("1900", "--markdown"))) {
      String[] arguments =
          Stream.concat(Stream.of("errors"), wrong.stream()).toArray(String[]::new);
      assertThat(CommandLineRun.of(arguments).code()).isEqualTo(ExitCodes.USAGE);
    }
  }
}
