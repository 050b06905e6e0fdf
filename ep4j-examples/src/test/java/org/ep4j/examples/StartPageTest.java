package org.ep4j.examples;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.Test;

/** The files that docs/start.md and README.md show are those of this module and of the build. */
class StartPageTest {
  private static final Path REPOSITORY = Path.of("..");
  private static final Path START = REPOSITORY.resolve("docs/start.md");
  private static final Path SOURCE = Path.of("src/main/java/org/ep4j/examples/Quickstart.java");

  private static final Pattern BLOCK = Pattern.compile("(?ms)^```([a-z]*)\\n(.*?)^```");
  private static final Pattern COORDINATES =
      Pattern.compile(
          "<groupId>([^<]+)</groupId>\\s*<artifactId>([^<]+)</artifactId>"
              + "\\s*<version>([^<]+)</version>");

  @Test
  void theJavaFileIsTheCompiledExample() throws IOException {
    String source = Files.readString(SOURCE).replace("package org.ep4j.examples;\n\n", "");

    assertThat(block(START, "java", "class Quickstart")).isEqualTo(source);
  }

  @Test
  void theProgramOfTheReadmeIsPartOfTheCompiledExample() throws IOException {
    String shown = block(REPOSITORY.resolve("README.md"), "java", "void main");
    String indented =
        shown
            .lines()
            .map(line -> line.isEmpty() ? line : "  " + line)
            .collect(Collectors.joining("\n"));

    assertThat(Files.readString(SOURCE)).contains(indented);
  }

  @Test
  void theOutputIsThatOfTheProgram() throws IOException {
    String printed =
        ThreadRanks.call(2, Quickstart::forward).stream()
            .map(result -> Arrays.toString(result) + "\n")
            .collect(Collectors.joining());

    assertThat(block(START, "", "[10.0")).isEqualTo(printed);
  }

  @Test
  void versionsOfThePomAreThoseOfTheBuild() throws IOException {
    String build = Files.readString(REPOSITORY.resolve("pom.xml"));
    Map<String, String> versions = versions(build);
    Map<String, String> shown = versions(block(START, "xml", "<modelVersion>"));

    assertThat(shown).containsKeys("org.ep4j:ep4j-core", "org.codehaus.mojo:exec-maven-plugin");
    shown.remove("com.example:moe");
    String own = versions.get("org.ep4j:ep4j-parent");
    shown.forEach(
        (name, version) ->
            assertThat(version)
                .as(name)
                .isEqualTo(name.startsWith("org.ep4j:") ? own : versions.get(name)));
  }

  @Test
  void artifactsAreModulesThatAreDeployed() throws IOException {
    String commands = block(START, "", "mvn install");
    List<String> named =
        Pattern.compile("\\bep4j-[a-z]+")
            .matcher(commands + block(START, "xml", "<modelVersion>"))
            .results()
            .map(MatchResult::group)
            .toList();

    assertThat(named).contains("ep4j-core", "ep4j-cuda");
    for (String module : named) {
      assertThat(Files.readString(REPOSITORY.resolve(module).resolve("pom.xml")))
          .contains("<artifactId>" + module + "</artifactId>")
          .contains("<maven.deploy.skip>false</maven.deploy.skip>");
    }
  }

  /** The options of the pom are those that the guide names for the class path. */
  @Test
  void optionsOfTheJvmAreThoseOfTheGuide() throws IOException {
    String pom = block(START, "xml", "<modelVersion>");
    String options =
        Pattern.compile("<argument>([^<]+)</argument>")
            .matcher(pom)
            .results()
            .map(argument -> argument.group(1))
            .collect(Collectors.joining(" "));

    String guide = block(REPOSITORY.resolve("docs/guide.md"), "", "# class path");
    String written = guide.substring("java ".length(), guide.indexOf(" -cp"));
    assertThat(options).startsWith(written + " ");
  }

  /** The text of the only code block of a language that contains a text. */
  private static String block(Path page, String language, String part) throws IOException {
    List<String> blocks =
        BLOCK
            .matcher(Files.readString(page))
            .results()
            .filter(block -> block.group(1).equals(language) && block.group(2).contains(part))
            .map(block -> block.group(2))
            .toList();
    assertThat(blocks).as("%s: blocks with %s", page, part).hasSize(1);
    return blocks.getFirst();
  }

  private static Map<String, String> versions(String pom) {
    Map<String, String> versions = new TreeMap<>();
    for (MatchResult match : COORDINATES.matcher(pom).results().toList()) {
      versions.put(match.group(1) + ":" + match.group(2), match.group(3));
    }
    return versions;
  }
}
