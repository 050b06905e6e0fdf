package org.ep4j.architecture;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/**
 * Rule: comments, messages and documents name the subject of a sentence. A sentence whose subject
 * is "who" or "nobody" leaves the reader to guess whether it speaks of a peer, a caller or a
 * thread.
 */
class ProseTest {
  /** Each phrase, and what to write instead. */
  private static final Map<String, String> PHRASES =
      Map.of(
          "\\b[Ww]ho(ever|m)?\\b", "the noun: peer, caller, receiver, rank",
          "\\b([Nn]obody|[Ss]omebody|[Ee]verybody|[Aa]nybody)\\b", "no rank, a caller, all ranks",
          "\\bthe one that\\b", "the noun",
          "\\b(is|are|was|were) told\\b", "is notified; receives",
          "\\b(says|say|said) so\\b", "reports",
          "\\b(goes|go|went|going) on\\b", "continues; proceeds",
          "\\bfor good\\b", "permanently",
          "\\b[Yy]oung\\b", "experimental");

  /** Parts of lines that hold such a phrase, with the reason. */
  private static final Map<String, String> EXCEPTIONS =
      Map.of("experimental: young", "a row of VocabularyTest");

  /** Directories of pages. */
  private static final List<String> PLACES =
      List.of("docs", "docs/design", "docs/observability", "docs/performance", "benchmarks");

  private static final Pattern PROSE =
      Pattern.compile(
          "/\\*(?s:.*?)\\*/|//[^\\n]*|\"\"\"(?s:.*?)\"\"\""
              + "|\"[^\"\\\\\\n]*+(?:\\\\.[^\"\\\\\\n]*+)*+\"");

  private static final Pattern SOURCE = Pattern.compile(".*\\.(java|cu|cuh|cpp|hpp|c|h)");
  private static final String SELF = ProseTest.class.getSimpleName() + ".java";

  @Test
  void sentencesNameTheirSubjects() throws IOException {
    List<String> found = new ArrayList<>();
    Set<String> unused = new TreeSet<>(EXCEPTIONS.keySet());
    for (Path file : files()) {
      String name = Repository.repository().relativize(file).toString();
      String text = Files.readString(file);
      for (String line : name.endsWith(".md") ? text.lines().toList() : prose(text)) {
        PHRASES.forEach(
            (phrase, instead) -> {
              Matcher matcher = Pattern.compile(phrase).matcher(line);
              if (!matcher.find()) {
                return;
              }
              List<String> excepted = EXCEPTIONS.keySet().stream().filter(line::contains).toList();
              unused.removeAll(excepted);
              if (excepted.isEmpty()) {
                found.add("%s: '%s' (%s): %s".formatted(name, matcher.group(), instead, line));
              }
            });
      }
    }
    assertThat(found).as("sentences without a subject").isEmpty();
    assertThat(unused).as("unused exceptions: remove them").isEmpty();
  }

  @Test
  void codeIsNotProse() {
    assertThat(prose("int who; // nobody\n/** Goes on. */ String s = \"young\";"))
        .containsExactly("// nobody", "/** Goes on. */", "\"young\"");
  }

  private static List<String> prose(String source) {
    return PROSE.matcher(source).results().flatMap(part -> part.group().lines()).toList();
  }

  /** All sources and documents; the archive keeps its words, and the changelog its history. */
  private static List<Path> files() throws IOException {
    Path repository = Repository.repository();
    List<Path> files = new ArrayList<>(List.of(repository.resolve("README.md")));
    files.add(repository.resolve("CONTRIBUTING.md"));
    for (String place : PLACES) {
      try (Stream<Path> pages = Files.list(repository.resolve(place))) {
        pages.filter(page -> page.toString().endsWith(".md")).forEach(files::add);
      }
    }
    try (Stream<Path> modules = Files.list(repository)) {
      for (Path module : modules.filter(path -> Files.isDirectory(path.resolve("src"))).toList()) {
        try (Stream<Path> sources = Files.walk(module.resolve("src"))) {
          sources
              .filter(file -> SOURCE.matcher(file.toString()).matches())
              .filter(file -> !file.endsWith(SELF))
              .forEach(files::add);
        }
      }
    }
    return files;
  }
}
