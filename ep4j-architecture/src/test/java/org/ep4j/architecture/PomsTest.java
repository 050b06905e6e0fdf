package org.ep4j.architecture;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.MatchResult;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** What scripts and pages say of the modules is what their poms say. */
class PomsTest {
  private static final Path ROOT = Repository.repository();

  private static final Pattern DEPENDENCY =
      Pattern.compile(
          "<dependency>\\s*<groupId>org\\.ep4j</groupId>\\s*<artifactId>([^<]+)</artifactId>"
              + "(?!\\s*(<type>[^<]*</type>\\s*)?<scope>test)");

  @Test
  void theLauncherBuildsAgainAfterAChangeOfAnyModuleOfTheCommandLine() throws IOException {
    Matcher watched =
        Pattern.compile("for module in ([^;]+);").matcher(Files.readString(ROOT.resolve("ep4j")));
    assertThat(watched.find()).isTrue();

    TreeSet<String> needed = new TreeSet<>(Set.of("ep4j-cli"));
    ArrayDeque<String> open = new ArrayDeque<>(needed);
    while (!open.isEmpty()) {
      for (MatchResult found : DEPENDENCY.matcher(pom(open.remove())).results().toList()) {
        if (needed.add(found.group(1))) {
          open.add(found.group(1));
        }
      }
    }
    assertThat(watched.group(1).split(" ")).containsExactlyInAnyOrderElementsOf(needed);
  }

  @Test
  void thePageOfReleasesNamesEveryModuleThatIsDeployed() throws IOException {
    TreeSet<String> deployed = new TreeSet<>();
    try (Stream<Path> modules = Files.list(ROOT)) {
      for (Path module : modules.toList()) {
        if (Files.exists(module.resolve("pom.xml"))
            && Files.readString(module.resolve("pom.xml"))
                .contains("<maven.deploy.skip>false</maven.deploy.skip>")) {
          deployed.add(module.getFileName().toString());
        }
      }
    }
    TreeSet<String> named = new TreeSet<>();
    for (String line : Files.readAllLines(ROOT.resolve("docs/release.md"))) {
      if (line.startsWith("| `ep4j-")) {
        Pattern.compile("`(?:ep4j)?(-[a-z]+)`")
            .matcher(line)
            .results()
            .forEach(name -> named.add("ep4j" + name.group(1)));
      }
    }
    assertThat(named).isEqualTo(deployed);
  }

  private static String pom(String module) throws IOException {
    return Files.readString(ROOT.resolve(module).resolve("pom.xml"));
  }
}
