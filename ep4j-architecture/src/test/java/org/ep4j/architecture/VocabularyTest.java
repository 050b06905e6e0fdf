package org.ep4j.architecture;

import static java.util.Map.entry;
import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** Rule: identifiers use the terms of the field. Comments and strings are not checked. */
class VocabularyTest {
  /** Each line: a term to use, a colon, the words that it replaces. */
  private static final String TERMS =
      """
      route: way ways
      internode: far
      intranode, nearest, affinity: near
      slot notification: mail letter
      return, return buffer: home homebound
      row metadata: companion accompany
      tile, transpose, next: turn turns turned
      wait context, liveness check: watch
      should abort: vain
      missing, unreachable: absent
      filter, limit: within
      failure, mismatch: blame blames blamed
      abort, release: giving gave gives
      region replacement: withdrawal
      survivor agreement: reunion
      fence: eviction
      failover: succession detour detours
      idle, quiesce: quiet
      channel: door
      guard: entrance
      acceptor, latch: gate
      experimental: young
      threads, team: crew
      request: wish wishes
      progress context: strand strands
      max: most
      timeout: patience
      goodbye: farewell bye
      scripted: puppet
      registration: loan loans
      client: guest
      unauthenticated: visitor visitors stranger strangers
      index, member: seat seats
      rejoin, identity: claim claims claimed claimant
      barrier, participants: meeting meetings
      crash point: doom doomed
      pause: nap
      reporter: teller
      orphaned, unlisted: homeless
      """;

  /** Identifiers that contain such a word, with the reason. */
  private static final Map<String, String> EXCEPTIONS =
      Map.ofEntries(
          entry("atMost", "the API of Sizing: at most n rows"),
          entry("computeIfAbsent", "java.util.Map"),
          entry("putIfAbsent", "java.util.Map"),
          entry("within", "AssertJ, and what the field calls a tolerance"),
          entry("GUEST", "its name is part of what both ends of a connection sign"),
          entry("home", "the directory of an installation, as in CUDA_HOME"),
          entry("addHome", "the directory of an installation"),
          entry("nvshmem_quiet", "a function of NVSHMEM"),
          entry("claim", "an atomic operation takes work or a place in a ring: the field's term"),
          entry("claimed", "the same"),
          entry("ClaimedTokens", "the same"),
          entry("aPageArenaGivesZeroedPagesUntilItIsClosed", "a sentence in plain English"),
          entry("theGeneratorGivesThePublishedFirstOutput", "a sentence in plain English"),
          entry("memoryThatItsOwnerGaveBackIsNotTouched", "a sentence in plain English"));

  private static final Pattern NO_CODE =
      Pattern.compile(
          "/\\*(?s:.*?)\\*/|//[^\\n]*|\"\"\"(?s:.*?)\"\"\""
              + "|\"[^\"\\\\\\n]*+(?:\\\\.[^\"\\\\\\n]*+)*+\""
              + "|'[^'\\\\\\n]*+(?:\\\\.[^'\\\\\\n]*+)*+'");

  private static final Pattern IDENTIFIER = Pattern.compile("[A-Za-z_]\\w*");
  private static final Pattern WORD = Pattern.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+");
  private static final Pattern SOURCE = Pattern.compile(".*\\.(java|cu|cuh|cpp|hpp|c|h)");

  @Test
  void identifiersUseTheTermsOfTheField() throws IOException {
    Map<String, String> terms = terms();
    List<String> found = new ArrayList<>();
    Set<String> used = new TreeSet<>();
    for (Path file : sources()) {
      String name = Repository.repository().relativize(file).toString();
      for (String identifier : identifiers(Files.readString(file))) {
        String term = term(identifier, terms);
        if (term == null) {
          continue;
        }
        if (EXCEPTIONS.containsKey(identifier)) {
          used.add(identifier);
        } else {
          found.add(name + ": " + identifier + " (use: " + term + ")");
        }
      }
    }
    assertThat(found).as("identifiers with words that the field does not use").isEmpty();
    Set<String> exceptions = new TreeSet<>(EXCEPTIONS.keySet());
    exceptions.removeAll(used);
    assertThat(exceptions).as("unused exceptions: remove them").isEmpty();
  }

  @Test
  void commentsAndStringsAreNotIdentifiers() {
    assertThat(identifiers("int a; // far\n/* way */ String b = \"near\"; char c = '\\'';"))
        .contains("a", "b", "c")
        .doesNotContain("far", "way", "near");
    assertThat(term("endOfWays", terms())).isEqualTo("route");
    assertThat(term("RETURN_TURN", terms())).isNotNull();
    assertThat(term("alwaysReturned", terms())).isNull();
  }

  private static Map<String, String> terms() {
    Map<String, String> terms = new TreeMap<>();
    TERMS
        .lines()
        .forEach(
            line -> {
              int colon = line.indexOf(':');
              for (String word : line.substring(colon + 1).strip().split(" ", -1)) {
                assertThat(terms.put(word, line.substring(0, colon))).as(word).isNull();
              }
            });
    return terms;
  }

  private static Set<String> identifiers(String source) {
    Set<String> names = new TreeSet<>();
    IDENTIFIER
        .matcher(NO_CODE.matcher(source).replaceAll(" "))
        .results()
        .map(MatchResult::group)
        .forEach(names::add);
    return names;
  }

  /** The term for the first replaced word of an identifier; null if there is none. */
  private static @Nullable String term(String identifier, Map<String, String> terms) {
    for (MatchResult word : WORD.matcher(identifier).results().toList()) {
      String term = terms.get(word.group().toLowerCase(Locale.ROOT));
      if (term != null) {
        return term;
      }
    }
    return null;
  }

  private static List<Path> sources() throws IOException {
    List<Path> roots = new ArrayList<>(List.of(Repository.repository().resolve("benchmarks")));
    try (Stream<Path> children = Files.list(Repository.repository())) {
      children.map(child -> child.resolve("src")).filter(Files::isDirectory).forEach(roots::add);
    }
    List<Path> files = new ArrayList<>();
    for (Path root : roots) {
      try (Stream<Path> tree = Files.walk(root)) {
        tree.filter(file -> SOURCE.matcher(file.toString()).matches()).forEach(files::add);
      }
    }
    return files;
  }
}
