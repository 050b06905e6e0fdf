package org.ep4j.cli.top;

import java.io.IOException;
import java.io.PrintWriter;
import java.net.InetSocketAddress;
import java.net.SocketTimeoutException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.text.Json;
import org.ep4j.cli.text.OutputFile;
import org.ep4j.cli.text.Style;
import org.ep4j.cli.text.Terminal;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.JoinRefusedException;
import org.ep4j.group.rendezvous.JobObserver;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** Shows for which ranks the ranks of a running job wait. */
@Command(
    name = "top",
    sortOptions = false,
    description = {
      "Show for which ranks the ranks of a running job wait, a slow rank or link, and busy experts.",
      "",
      "Without --rendezvous, a job of this user is found on the host of its rendezvous, where rank 0"
          + " or its launcher runs. The secret of a job elsewhere is read from EP4J_SECRET. Looking"
          + " changes nothing in the job: its ranks record always, and answer beside their work.",
      ""
    })
public final class TopCommand implements Callable<Integer> {
  static final String RENDEZVOUS = "EP4J_RENDEZVOUS";
  static final String SECRET = "EP4J_SECRET";
  private static final Duration TIMEOUT = Duration.ofSeconds(5);
  private static final String CLEAR = "\u001b[H\u001b[2J";

  @Option(
      names = "--rendezvous",
      paramLabel = "HOST:PORT",
      description = "Where the job's rendezvous listens: EP4J_RENDEZVOUS of its ranks.")
  private @Nullable String rendezvous;

  @Option(
      names = "--interval",
      defaultValue = "2",
      paramLabel = "SECONDS",
      description = "Time between two looks; default ${DEFAULT-VALUE}.")
  private double interval;

  @Option(names = "--once", description = "Look once; so too where standard output is a file.")
  private boolean once;

  @Option(
      names = "--json",
      paramLabel = "FILE",
      description = "Look once, and write what is seen as JSON; - for standard output.")
  private @Nullable Path json;

  @Spec private CommandSpec spec;

  /** For the command line. */
  @SuppressWarnings("NullAway.Init") // picocli sets the fields
  public TopCommand() {}

  @Override
  public Integer call() throws IOException {
    CommandSpecs.check(
        spec,
        interval >= 0.1 && interval <= 3600,
        ErrorCode.BAD_OPTION_VALUE,
        "--interval " + interval + ": it must be 0.1 to 3600 seconds");
    OutputFile file = json == null ? null : new OutputFile(json);
    if (file != null) {
      String problem = file.problem();
      CommandSpecs.check(
          spec, problem.isEmpty(), ErrorCode.BAD_JSON_FILE, "--json " + json + ": " + problem);
    }
    Map<String, LocalJobs.Job> jobs = LocalJobs.find();
    String where = rendezvous == null ? only(jobs) : rendezvous;
    LocalJobs.Job job = jobs.get(where);
    String secret = secretOf(where, job);
    InetSocketAddress local = job == null ? null : job.address();
    InetSocketAddress address = local == null ? address(where) : local;
    PrintWriter out = spec.commandLine().getOut();
    boolean live = !once && file == null && Terminal.standardOutput();
    try (JobObserver observer = JobObserver.open(address, secret, TIMEOUT)) {
      TopScreen screen = look(observer);
      if (file != null) {
        file.write(Json.text(screen.tree()));
        return ExitCodes.OK;
      }
      Style style = Style.detect();
      if (live) {
        follow(observer, screen, (long) (interval * 1e9), out, style);
        return ExitCodes.OK;
      }
      out.print(screen.render(style));
      out.flush();
      return ExitCodes.OK;
    } catch (JoinRefusedException | IOException e) {
      throw new CommandFailure(
          ErrorCode.JOB_UNREACHABLE,
          ExitCodes.FAILED,
          "the rendezvous at "
              + where
              + " does not answer an observer ("
              + e.getMessage()
              + "): check the address, EP4J_SECRET, and that the job runs",
          e);
    }
  }

  /** Looks again and again until the job ends, or the thread is interrupted. */
  static void follow(
      JobObserver observer, TopScreen first, long pauseNanos, PrintWriter out, Style style) {
    TopScreen screen = first;
    String note = "";
    while (!Thread.currentThread().isInterrupted()) {
      out.print(CLEAR + screen.render(style) + note);
      out.flush();
      LockSupport.parkNanos(pauseNanos);
      try {
        screen = look(observer);
        note = "";
      } catch (SocketTimeoutException e) {
        note = "no answer for " + TIMEOUT.toSeconds() + " s: asking again\n";
      } catch (JoinRefusedException e) {
        if (e.reason() != JoinRefusedException.Reason.CLOSED) {
          throw e;
        }
        reportEnd(out);
        return;
      } catch (IOException e) {
        reportEnd(out);
        return;
      }
    }
  }

  private static void reportEnd(PrintWriter out) {
    out.println("the job has ended");
    out.flush();
  }

  private static TopScreen look(JobObserver observer) throws IOException {
    try {
      return new TopScreen(observer.ask(TIMEOUT));
    } catch (InvalidArgumentException e) {
      throw new IOException("a rank sent what is no observation", e);
    }
  }

  static String only(Map<String, LocalJobs.Job> jobs) {
    if (jobs.isEmpty()) {
      throw new CommandFailure(
          ErrorCode.JOB_NOT_FOUND,
          ExitCodes.FAILED,
          "no job of this user was found on this host: run top on the host of rank 0 with the same"
              + " EP4J_SHM_DIR, or name the rendezvous with --rendezvous, and its secret in"
              + " EP4J_SECRET (EP4J_JOB_FILES=0 hides a job)");
    }
    if (jobs.size() > 1) {
      throw new CommandFailure(
          ErrorCode.JOB_AMBIGUOUS,
          ExitCodes.USAGE,
          "this user runs several jobs on this host: name one\n  --rendezvous "
              + jobs.values().stream()
                  .map(LocalJobs.Job::text)
                  .collect(Collectors.joining("\n  --rendezvous ")));
    }
    return jobs.keySet().iterator().next();
  }

  private static String secretOf(String where, LocalJobs.@Nullable Job job) {
    String secret = job == null ? System.getenv(SECRET) : job.secret();
    if (secret == null) {
      throw new CommandFailure(
          ErrorCode.SECRET_MISSING,
          ExitCodes.USAGE,
          "the secret of the job at " + where + " is unknown here: set EP4J_SECRET");
    }
    return secret;
  }

  private static InetSocketAddress address(String where) {
    int colon = where.lastIndexOf(':');
    try {
      int port = Integer.parseInt(where.substring(colon + 1));
      if (colon > 0 && port > 0 && port < 65536) {
        return new InetSocketAddress(where.substring(0, colon), port);
      }
    } catch (NumberFormatException e) {
      // Reported below.
    }
    throw new CommandFailure(
        ErrorCode.BAD_OPTION_VALUE,
        ExitCodes.USAGE,
        "--rendezvous " + where + ": it must be HOST:PORT, such as localhost:29500");
  }
}
