package org.ep4j.cli;

import java.io.PrintWriter;
import java.util.Locale;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.AutoComplete;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** Prints the script that completes commands and options in a shell. */
@Command(
    name = "completion",
    description = {
      "Print a script that completes the commands and options of ep4j in a shell.",
      "",
      "For this shell: source <(ep4j completion bash), with zsh in place of bash there. For every"
          + " shell: put that line into ~/.bashrc or ~/.zshrc.",
      ""
    })
final class CompletionCommand implements Callable<Integer> {
  /** The shells that can run the script, which is the same for both. */
  enum Shell {
    BASH,
    ZSH;

    @Override
    public String toString() {
      return name().toLowerCase(Locale.ROOT);
    }
  }

  @Parameters(arity = "1", paramLabel = "SHELL", description = "The shell: bash or zsh.")
  private @Nullable Shell shell;

  @Spec private @Nullable CommandSpec spec;

  @Override
  public Integer call() {
    CommandLine line = CommandSpecs.require(spec).root().commandLine();
    PrintWriter out = line.getOut();
    out.printf("# ep4j %s: source <(ep4j completion %s)%n", Build.version(), shell);
    out.print(AutoComplete.bash(line.getCommandName(), line));
    out.flush();
    return ExitCodes.OK;
  }
}
