package org.ep4j.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import picocli.CommandLine;
import picocli.CommandLine.Model.OptionSpec;

class CompletionCommandTest {
  @TempDir Path scratch;

  @Test
  void scriptNamesEveryCommandAndEveryOption() {
    String script = CommandLineRun.of("completion", "bash").out();

    List<String> missing = new ArrayList<>();
    collectMissing(commands(), script, missing);
    assertThat(missing).isEmpty();
  }

  @Test
  void bothShellsGetTheSameScriptBelowItsHeading() {
    String bash = CommandLineRun.of("completion", "bash").out();
    String zsh = CommandLineRun.of("completion", "zsh").out();

    assertThat(bash).startsWith("# ep4j ").contains("source <(ep4j completion bash)");
    assertThat(zsh).contains("source <(ep4j completion zsh)");
    assertThat(zsh.substring(zsh.indexOf('\n'))).isEqualTo(bash.substring(bash.indexOf('\n')));
  }

  @ParameterizedTest
  @CsvSource({
    "ver, verify version",
    "cache wa, warm",
    "bench ht --tok, --tokens",
    "completion '', bash zsh"
  })
  void bashCompletesFromTheScript(String typed, String completions) throws Exception {
    Path script = scratch.resolve("completion");
    Files.writeString(script, CommandLineRun.of("completion", "bash").out());
    String asked =
        "source %s; COMP_WORDS=(ep4j %s); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_LINE=x;"
                .formatted(script, typed)
            + " _complete_ep4j 2>/dev/null; echo ${COMPREPLY[@]}";

    Process bash = new ProcessBuilder("bash", "-c", asked).redirectErrorStream(true).start();
    String said = new String(bash.getInputStream().readAllBytes(), StandardCharsets.UTF_8);

    assertThat(bash.waitFor()).as(said).isZero();
    assertThat(said.strip().split("\\s+")).containsExactlyInAnyOrder(completions.split(" "));
  }

  @Test
  void anotherShellIsWrongUsage() {
    CommandLineRun run = CommandLineRun.of("completion", "fish");

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains("SHELL = fish; it must be one of bash, zsh");
    assertThat(CommandLineRun.of("completion").code()).isEqualTo(ExitCodes.USAGE);
  }

  private static void collectMissing(CommandLine command, String script, List<String> missing) {
    String name = command.getCommandSpec().qualifiedName();
    if (!script.contains("_picocli_" + command.getCommandSpec().qualifiedName("_") + "()")) {
      missing.add(name);
    }
    for (OptionSpec option : command.getCommandSpec().options()) {
      if (!option.hidden() && !script.contains("'" + option.longestName() + "'")) {
        missing.add(name + " " + option.longestName());
      }
    }
    for (CommandLine child : command.getSubcommands().values()) {
      if (!child.getCommandSpec().usageMessage().hidden()) {
        collectMissing(child, script, missing);
      }
    }
  }

  private static CommandLine commands() {
    PrintWriter nowhere = new PrintWriter(new StringWriter());
    return Main.commandLine(nowhere, nowhere);
  }
}
