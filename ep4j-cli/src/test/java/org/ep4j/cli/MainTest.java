package org.ep4j.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.File;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.group.GroupException;
import org.ep4j.wire.WireException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;

class MainTest {
  @TempDir Path scratch;

  @Test
  void versionNamesTheVersionAndTheJdk() {
    CommandLineRun run = CommandLineRun.of("version");

    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).startsWith("ep4j ").contains("Java " + Runtime.version());
  }

  @Test
  void optionVersionPrintsTheSameAsTheCommand() {
    assertThat(CommandLineRun.of("--version").out()).isEqualTo(CommandLineRun.of("version").out());
  }

  @Test
  void aMissingCommandIsWrongUsage() {
    CommandLineRun run = CommandLineRun.of();

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err())
        .contains(ErrorCode.MISSING_ARGUMENT.id() + ": ")
        .contains("bench, report, run, verify", "plan, top, launch");
  }

  @Test
  void aMisspelledCommandGetsASuggestion() {
    CommandLineRun run = CommandLineRun.of("doktor");

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains("Did you mean").contains("doctor").doesNotContain("\tat ");
  }

  @Test
  void aMisspelledOptionOrOperationGetsASuggestion() {
    assertThat(CommandLineRun.of("bnech").err()).contains("Did you mean: bench\n");
    assertThat(CommandLineRun.of("bench", "--iteratoins", "3").err())
        .contains("Did you mean: --iterations\n");
    assertThat(CommandLineRun.of("bench", "wrie").err()).contains("did you mean wire?");
  }

  /** picocli alone would name the required option, which the user believes to have given. */
  @Test
  void aMisspelledRequiredOptionIsNamed() {
    CommandLineRun run = CommandLineRun.of("verify", "--vektors=cases");

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err())
        .contains("EP4J-1901: Unknown option: '--vektors'", "Did you mean: --vectors\n")
        .doesNotContain("Missing");
    assertThat(CommandLineRun.of("launch", "--", "program", "--rank").err())
        .contains("EP4J-1903: Missing required option");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "bench ht --tokens 4k | EP4J-1900: --tokens = 4k; it must be a whole number up to 2147483647",
        "bench wire --sizes 4k | EP4J-1900: --sizes = 4k; it must be a whole number",
        "top --interval x | EP4J-1900: --interval = x; it must be a number",
        "bench --dtype int8 | EP4J-1900: --dtype = int8; it must be one of bf16, fp8, nvfp4, fp16",
        "completion fish | EP4J-1900: SHELL = fish; it must be one of bash, zsh",
        "launch -n 1 --env A -- x | EP4J-1900: --env = A; it must be KEY=VALUE",
        "bench --threads --join | EP4J-1904: --threads, --join exclude each other: leave out all but",
        "doctor here | EP4J-1901: unexpected 'here': leave it out",
      })
  void messagesOfThePicocliLibraryHaveTheFormOfOthers(String line, String expected) {
    CommandLineRun run = CommandLineRun.of(line.split(" "));

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains(expected);
  }

  /** Java takes an empty path for the current directory, whose files a command would replace. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "run --input i --output",
        "run --output o --input",
        "vectors --output",
        "verify --vectors",
        "report a.json --output",
        "bench --json",
        "plan --machine h100-cx7 --html"
      })
  void anEmptyPathIsRefused(String line) {
    String option = line.substring(line.lastIndexOf(' ') + 1);
    CommandLineRun run = CommandLineRun.of((line + " ").split(" ", -1));

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err())
        .contains("EP4J-1900: " + option + " = ''; it must be the name of a file or directory");
    assertThat(CommandLineRun.of((line + "=").split(" ")).err()).isEqualTo(run.err());
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "bench --json x.json --num-processes=77777 moe --tokens 0 | --json, --num-processes before moe",
        "bench --threads wire --lanes 0 | --threads before wire",
        "bench ht wire --lanes 0 | ht before wire",
      })
  void argumentsBeforeASubcommandAreRefused(String line, String expected) {
    CommandLineRun run = CommandLineRun.of(line.split(" "));

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains("EP4J-1905: " + expected + " would have no effect");
  }

  @Test
  void optionsOfEveryCommandMayStandBeforeASubcommand() {
    assertThat(CommandLineRun.of("--verbose", "bench", "--verbose", "wire", "--lanes", "0").err())
        .contains("EP4J-1900: --lanes = 0");
    assertThat(CommandLineRun.of("bench", "--json", "x.json", "wire", "--help").code())
        .isEqualTo(ExitCodes.OK);
  }

  @Test
  void anErrorOfTheJvmIsAMessageWithoutAStackTrace() {
    StringWriter err = new StringWriter();
    CommandLine line = Main.commandLine(new PrintWriter(err), new PrintWriter(err, true));
    line.addSubcommand(new Faulty());

    assertThat(Main.execute(line, "faulty")).isEqualTo(ExitCodes.FAILED);
    assertThat(err.toString())
        .contains(ErrorCode.NOT_ENOUGH_MEMORY.id() + ": a page of mapped memory")
        .doesNotContain("InternalError", "\tat ");
  }

  /** Fails as a read of mapped memory does for which the kernel has no page. */
  @CommandLine.Command(name = "faulty")
  static final class Faulty implements Runnable {
    @Override
    public void run() {
      throw new InternalError(
          "a fault occurred in a recent unsafe memory access operation in compiled Java code");
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"version", "bench --help", "errors"})
  void lostOutputIsAFailure(String command) throws Exception {
    List<String> arguments = CliProcess.command(command.split(" ", -1));
    Path err = scratch.resolve("err");
    Process process =
        new ProcessBuilder(arguments)
            .redirectOutput(new File("/dev/full"))
            .redirectError(err.toFile())
            .start();

    assertThat(process.waitFor(60, TimeUnit.SECONDS)).isTrue();
    assertThat(process.exitValue()).isEqualTo(ExitCodes.FAILED);
    assertThat(Files.readString(err))
        .contains(ErrorCode.OUTPUT_NOT_WRITTEN.id() + ": standard output cannot be written");
  }

  @Test
  void otherSystemsAreRefused() throws Exception {
    try (CliProcess process =
        CliProcess.start(scratch, Map.of("JAVA_TOOL_OPTIONS", "-Dos.name=Darwin"), "version")) {
      CommandLineRun run = process.end();
      assertThat(run.code()).isEqualTo(ExitCodes.UNAVAILABLE);
      assertThat(run.err())
          .contains(ErrorCode.UNSUPPORTED_SYSTEM.id() + ": this machine runs Darwin");
    }
  }

  @Test
  void digitsDoNotFollowTheLocale() throws Exception {
    try (CliProcess process =
        CliProcess.start(
            scratch,
            Map.of("JAVA_TOOL_OPTIONS", "-Duser.language=ar -Duser.country=EG"),
            "launch",
            "-n",
            "2",
            "--hosts",
            "3",
            "true")) {
      assertThat(process.end().err()).contains("--hosts = 3, but 2 ranks fill only 2 hosts");
    }
  }

  @Test
  void anUnknownCommandIsAnsweredWithTheKnownOnes() {
    assertThat(CommandLineRun.of("frobnicate").err())
        .contains(
            "ep4j: EP4J-1902: unknown command 'frobnicate': use one of bench, report, run, verify");
    assertThat(CommandLineRun.of("cache", "fill").err())
        .contains("ep4j cache: EP4J-1902: unknown command 'fill': use one of list, warm, clear");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "launch",
        "doctor",
        "cache",
        "bundle",
        "python",
        "docs",
        "completion",
        "errors",
        "version"
      })
  void everyHelpListsTheExitCodes(String command) {
    CommandLineRun run = CommandLineRun.of(command, "--help");

    assertThat(run.code()).isEqualTo(ExitCodes.OK);
    assertThat(run.out())
        .contains("Exit codes:")
        .contains("wrong usage")
        .contains("cannot use the requested engine");
  }

  @Test
  void everyCommandHasExamplesThatParse() {
    assertExamples(parser());
  }

  private static CommandLine parser() {
    return Main.commandLine(
        new PrintWriter(new StringWriter()), new PrintWriter(new StringWriter()));
  }

  private static void assertExamples(CommandLine command) {
    String name = command.getCommandSpec().qualifiedName();
    List<String> examples = HelpText.EXAMPLES.getOrDefault(name, List.of());
    assertThat(examples).as(name).isNotEmpty();
    assertThat(CommandLineRun.of((name + " --help").substring("ep4j ".length()).split(" ")).out())
        .contains("Examples:", examples.getFirst());
    for (String example : examples) {
      String[] arguments = example.substring("ep4j ".length()).split(" ");
      parser().parseArgs(arguments);
    }
    command.getSubcommands().values().forEach(MainTest::assertExamples);
  }

  @Test
  void theOptionsOfBenchAreGrouped() {
    String help = CommandLineRun.of("bench", "--help").out();

    assertThat(help)
        .containsSubsequence(
            "\nRanks and engine:\n",
            "--ranks",
            "--join",
            "--wire",
            "\nWhat is measured:\n",
            "--tokens",
            "\nTiming and results:\n",
            "--iterations",
            "\nLow latency:\n",
            "--hook",
            "\nOther options:\n",
            "--help");
    assertThat(CommandLineRun.of("completion", "--help").out()).contains("\nOptions:\n");
  }

  @Test
  void noColoursWithoutATerminal() {
    assertThat(CommandLineRun.of("--help").out()).doesNotContain("\u001b");
    assertThat(CommandLineRun.of("nonsense").err()).doesNotContain("\u001b");
  }

  @Test
  void everyKindOfFailureHasItsCode() {
    assertThat(ExitCodes.of(new EngineUnavailableException(ErrorCode.ENGINE_UNAVAILABLE, "no")))
        .isEqualTo(ExitCodes.UNAVAILABLE);
    assertThat(ExitCodes.of(new GroupException(ErrorCode.GROUP_FAILED, "gone")))
        .isEqualTo(ExitCodes.PEER);
    assertThat(ExitCodes.of(new PeerTimeoutException("dispatch", "rows", 1, 2, 3, 0, 10, "")))
        .isEqualTo(ExitCodes.PEER);
    assertThat(
            ExitCodes.of(
                new InvalidArgumentException(ErrorCode.TOP_K, "topK", "0", ">= 1", "choose")))
        .isEqualTo(ExitCodes.USAGE);
    assertThat(ExitCodes.of(new WireException(ErrorCode.UCX_NO_ENCRYPTION, "no")))
        .isEqualTo(ExitCodes.UNAVAILABLE);
    assertThat(ExitCodes.of(new WireException(ErrorCode.WIRE_CONNECT, "gone")))
        .isEqualTo(ExitCodes.FAILED);
    assertThat(ExitCodes.of(new CommandFailure(ErrorCode.RANK_FAILED, 77, "theirs"))).isEqualTo(77);
    assertThat(ExitCodes.of(new IllegalStateException("bug"))).isEqualTo(ExitCodes.FAILED);
  }

  @ParameterizedTest
  @ValueSource(strings = {"bundle --no-tests", "bundle --wheel", "docs --output site"})
  void bundlesAndSitesCannotBeMadeOutsideAClone(String command) {
    CommandLineRun run = CommandLineRun.of(command.split(" ", -1));

    assertThat(run.code()).isEqualTo(ExitCodes.USAGE);
    assertThat(run.err()).contains(ErrorCode.NOT_A_CLONE.id());
  }

  @Test
  void theRevisionIsFoundLooseAndPacked() throws IOException {
    Files.writeString(scratch.resolve("HEAD"), "ref: refs/heads/main\n");
    Files.writeString(scratch.resolve("packed-refs"), "# pack-refs\n1234abcd refs/heads/main\n");
    assertThat(Build.revisionIn(scratch)).isEqualTo("1234abcd");

    Files.createDirectories(scratch.resolve("refs/heads"));
    Files.writeString(scratch.resolve("refs/heads/main"), "5678ef\n");
    assertThat(Build.revisionIn(scratch)).isEqualTo("5678ef");

    Files.writeString(scratch.resolve("HEAD"), "9abc\n");
    assertThat(Build.revisionIn(scratch)).isEqualTo("9abc");
  }
}
