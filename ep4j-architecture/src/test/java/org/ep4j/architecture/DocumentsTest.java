package org.ep4j.architecture;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.regex.MatchResult;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Statements of pages about files and versions are true. */
class DocumentsTest {
  private static final Pattern LINK = Pattern.compile("\\]\\(([^)#\\s]*)(?:#([^)\\s]+))?\\)");
  private static final Pattern HEADING = Pattern.compile("(?m)^#+ (.+)$");
  private static final Pattern FENCE = Pattern.compile("(?ms)^```.*?^```");
  private static final Pattern VERSION =
      Pattern.compile("<artifactId>ep4j-[a-z]+</artifactId>\\s*<version>([^<]+)</version>");

  private static final Pattern FIELD =
      Pattern.compile("(?:tree|item)\\.put\\(\\s*\"([a-z0-9_]+)\"");

  /** The fields of the class name the options. */
  private static final String OPTIONS = "BenchSettings.java";

  @Test
  void everyLinkLeadsToAFileAndAHeading() throws IOException {
    List<String> broken = new ArrayList<>();
    for (Path page : pages()) {
      for (MatchResult link : LINK.matcher(prose(page)).results().toList()) {
        if (link.group(1).startsWith("http")) {
          continue;
        }
        Path target = link.group(1).isEmpty() ? page : page.resolveSibling(link.group(1));
        String heading = link.group(2);
        if (!Files.exists(target)
            || (heading != null && !headings(prose(target)).contains(heading))) {
          broken.add(page.getFileName() + ": " + link.group());
        }
      }
    }
    assertThat(broken).isEmpty();
  }

  @Test
  void coordinatesAreThoseOfTheBuild() throws IOException {
    String version = version(Files.readString(Repository.repository().resolve("pom.xml")));
    List<String> written = new ArrayList<>();
    for (Path page : pages()) {
      VERSION.matcher(Files.readString(page)).results().forEach(m -> written.add(m.group(1)));
    }
    assertThat(written).isNotEmpty().containsOnly(version);
  }

  @Test
  void everyFieldOfJsonIsInThePageOfTheCommandLine() throws IOException {
    String page = Files.readString(Repository.repository().resolve("docs/command-line.md"));
    List<String> fields = new ArrayList<>();
    for (String module : List.of("ep4j-bench", "ep4j-cli")) {
      Path sources = Repository.repository().resolve(module + "/src/main/java");
      try (Stream<Path> files = Files.walk(sources)) {
        for (Path file : files.filter(f -> f.toString().endsWith(".java")).toList()) {
          if (!file.endsWith(OPTIONS)) {
            FIELD.matcher(Files.readString(file)).results().forEach(m -> fields.add(m.group(1)));
          }
        }
      }
    }
    assertThat(fields).hasSizeGreaterThan(50);
    assertThat(fields).allMatch(field -> page.contains("`" + field + "`"));
  }

  private static String version(String pom) {
    Matcher own = Pattern.compile("(?m)^  <version>(.+)</version>$").matcher(pom);
    assertThat(own.find()).isTrue();
    return own.group(1);
  }

  private static List<Path> pages() throws IOException {
    List<Path> pages = new ArrayList<>();
    for (String place :
        List.of(
            "",
            "docs",
            "docs/design",
            "docs/observability",
            "docs/performance",
            "docs/archive",
            "benchmarks")) {
      try (Stream<Path> files = Files.list(Repository.repository().resolve(place))) {
        files.filter(file -> file.toString().endsWith(".md")).forEach(pages::add);
      }
    }
    assertThat(pages).hasSizeGreaterThan(5);
    return pages;
  }

  private static String prose(Path page) throws IOException {
    return FENCE.matcher(Files.readString(page)).replaceAll("");
  }

  /** The anchors of a page's headings: lower case, words joined by dashes. */
  private static Set<String> headings(String page) {
    Set<String> anchors = new HashSet<>();
    for (MatchResult heading : HEADING.matcher(page).results().toList()) {
      String words = heading.group(1).toLowerCase(Locale.ROOT).replaceAll("[^\\p{L}\\p{N} _-]", "");
      anchors.add(words.strip().replace(' ', '-'));
    }
    return anchors;
  }
}
