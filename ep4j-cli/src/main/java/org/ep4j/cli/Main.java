package org.ep4j.cli;

import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.Locale;
import org.ep4j.cli.bench.BenchCommand;
import org.ep4j.cli.cache.CacheCommand;
import org.ep4j.cli.doctor.DoctorCommand;
import org.ep4j.cli.launch.LaunchCommand;
import org.ep4j.cli.plan.PlanCommand;
import org.ep4j.cli.report.ReportCommand;
import org.ep4j.cli.text.StandardOutput;
import org.ep4j.cli.text.Style;
import org.ep4j.cli.top.TopCommand;
import org.ep4j.cli.vectors.RunCommand;
import org.ep4j.cli.vectors.VectorsCommand;
import org.ep4j.cli.vectors.VerifyCommand;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Help.Ansi;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParseResult;
import picocli.CommandLine.ScopeType;
import picocli.CommandLine.Spec;

/** The {@code ep4j} command. */
@Command(
    name = "ep4j",
    description = "Expert parallelism for the JVM: measure it, check it, run it.",
    subcommands = {
      BenchCommand.class,
      ReportCommand.class,
      RunCommand.class,
      VerifyCommand.class,
      VectorsCommand.class,
      PlanCommand.class,
      TopCommand.class,
      LaunchCommand.class,
      DoctorCommand.class,
      CacheCommand.class,
      BundleCommand.class,
      PythonCommand.class,
      DocsCommand.class,
      CompletionCommand.class,
      ErrorsCommand.class,
      VersionCommand.class
    },
    mixinStandardHelpOptions = true,
    versionProvider = VersionCommand.Provider.class,
    scope = ScopeType.INHERIT,
    usageHelpAutoWidth = true,
    exitCodeListHeading = "%nExit codes:%n",
    commandListHeading = "%nCommands:%n",
    optionListHeading = "%nOptions:%n",
    synopsisSubcommandLabel = "COMMAND")
public final class Main implements Runnable {
  @Option(
      names = "--verbose",
      scope = ScopeType.INHERIT,
      description = "Show the stack trace of an error.")
  private boolean verbose;

  /** NativeExit.PROPERTY, of a package that is not exported to this module. */
  private static final String SKIP_EXIT_HANDLERS = "ep4j.skipExitHandlers";

  @Spec private @Nullable CommandSpec spec;

  /** Used by picocli. */
  public Main() {}

  /** Runs the command line and ends the JVM with its exit code. */
  public static void main(String... arguments) {
    // Digits and separators of every message and table, for readers that are programs.
    Locale.setDefault(Locale.Category.FORMAT, Locale.ROOT);
    // This process is ep4j's own: no other library needs its exit handlers (NativeExit).
    if (System.getProperty(SKIP_EXIT_HANDLERS) == null) {
      System.setProperty(SKIP_EXIT_HANDLERS, "true");
    }
    if (!OpenFiles.suffice()) {
      System.exit(OpenFiles.refuse());
    }
    StandardOutput out = StandardOutput.install();
    int code = Platform.isSupported() ? run(arguments) : Platform.refuse();
    System.out.flush();
    code = Failures.reportOutput(out.failure(), code);
    System.err.flush();
    // exit() instead of a return: a rank that hangs in a thread must not keep a failed command
    // alive.
    System.exit(code);
  }

  /** Runs the command line; returns its exit code. */
  @SuppressWarnings("DefaultCharset") // the writer uses the charset of the PrintStream
  public static int run(String... arguments) {
    PrintWriter err = new PrintWriter(System.err, true);
    CommandLine line = commandLine(new PrintWriter(System.out, true), err);
    return execute(line, RenamedOptions.replace(arguments, err));
  }

  /**
   * Runs the command line. picocli reports exceptions and passes errors on, such as a full heap.
   */
  static int execute(CommandLine line, String... arguments) {
    try {
      return line.execute(arguments);
    } catch (Error e) {
      Main main = line.getCommand();
      return Failures.report(e, line.getErr(), main.verbose);
    }
  }

  /** The command line with other output streams. */
  static CommandLine commandLine(PrintWriter out, PrintWriter err) {
    Main main = new Main();
    CommandLine line = new CommandLine(main);
    configure(line);
    line.setOut(out)
        .setErr(err)
        .setColorScheme(
            CommandLine.Help.defaultColorScheme(
                Style.detect() == Style.COLOURED ? Ansi.ON : Ansi.OFF))
        .setCaseInsensitiveEnumValuesAllowed(true)
        .setExecutionExceptionHandler(
            (failure, command, parsed) -> Failures.report(failure, command.getErr(), main.verbose))
        .setParameterExceptionHandler(Failures::reportUsage)
        .setExecutionStrategy(Main::runLast)
        .registerConverter(Path.class, new PathArgument());
    return line;
  }

  /** Runs the last command, or prints the help that an argument asks for. */
  private static int runLast(ParseResult parsed) {
    Integer help = CommandLine.executeHelpRequest(parsed);
    if (help != null) {
      return help;
    }
    PrecedingArguments.check(parsed);
    return new CommandLine.RunLast().execute(parsed);
  }

  private static void configure(CommandLine line) {
    HelpText.configure(line);
    // The first non-option after launch begins the launched command; the options behind it belong
    // to it.
    line.setStopAtPositional(line.getCommandName().equals("launch"));
    line.getSubcommands().values().forEach(Main::configure);
  }

  @Override
  public void run() {
    throw CommandSpecs.usage(
        CommandSpecs.require(spec),
        ErrorCode.MISSING_ARGUMENT,
        "no command: use one of "
            + String.join(", ", CommandSpecs.require(spec).subcommands().keySet()));
  }
}
