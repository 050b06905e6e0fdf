package org.ep4j.cli.launch;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.ep4j.cli.CliProcess;
import org.ep4j.cli.CommandLineRun;
import org.ep4j.cli.ExitCodes;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The environments in which users met faults: small worlds dispatch and combine there. A world
 * compares every byte with the oracle, or it ends before the deadline with an error that has a
 * code. Each world has a {@code /dev/shm} of its own, where it must leave nothing.
 */
class FaultsTest {
  /** Longer than the timeout of an opening, after which a world must have ended. */
  private static final Duration DEADLINE = Duration.ofSeconds(100);

  private static final String SIZES =
      " --device host --tokens 12 --hidden 256 --topk 3 --experts 10 --iterations 3 --warmup 1"
          + " --buffers 1 --dtype bf16";
  private static final String RIGHT = "equal the oracle bit for bit";

  /** Ports that sockets get where a program asks for none. */
  private static final String HIGH_PORTS = "32768-60999";

  @TempDir Path scratch;

  @BeforeAll
  static void onlyInFullRuns(@TempDir Path directory) throws Exception {
    assumeTrue(
        Boolean.getBoolean("ep4j.full"),
        "each environment takes seconds; ./ep4j test FaultsTest -Dep4j.full=true runs them");
    assumeTrue(
        succeeds("unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", directory.toString()),
        "this user cannot mount a tmpfs in a namespace (unshare -m)");
  }

  @Test
  void aSmallWorldFitsInto64Megabytes() throws Exception {
    assertRight(run(world("64m", "", ""), processes(2)));
  }

  @Test
  void aWorldThatDoesNotFitInto64MegabytesIsRefusedWithTheBytes() throws Exception {
    String large =
        "bench ht --processes --ranks 2 --device host --tokens 1000 --dtype bf16 --iterations 3"
            + " --warmup 1";

    CommandLineRun run = run(world("64m", "export EP4J_JOB_FILES=0", ""), large);

    assertThat(run.code()).isEqualTo(ExitCodes.FAILED);
    assertThat(run.err())
        .contains("EP4J-3050: rank 0 cannot create", "67108864 bytes are free there");
    assertNothingIsLeft(run);
  }

  /** Too few for a process, for its connections, and enough. The launcher has all it wants. */
  @ParameterizedTest
  @ValueSource(ints = {14, 18, 20, 22, 24, 26, 28, 32, 64})
  void withFewDescriptorsAWorldIsRightOrNamesThem(int descriptors) throws Exception {
    CommandLineRun run =
        run(
            world("512m", "", ""),
            2,
            List.of("sh", "-c", "ulimit -n " + descriptors + "; exec \"$@\"", "sh"),
            joined(" --nodes 2 --wire tcp"));

    assertThat(run.code() == ExitCodes.OK || run.err().contains("EP4J-")).as("%s", run).isTrue();
    assertThat(run.code() == ExitCodes.OK || (run.out() + run.err()).contains("open files"))
        .as("the reason is named: %s", run)
        .isTrue();
    assertThat(run.code() == ExitCodes.OK).isEqualTo(run.out().contains(RIGHT));
    assertThat(run.code() == ExitCodes.OK || descriptors < 64).as("%s", run).isTrue();
    assertNothingIsLeft(run);
  }

  /** A firewall between two hosts passes the port of the rendezvous alone, and drops the others. */
  @Test
  void aFirewallThatDropsHighPortsIsNamed() throws Exception {
    try (LinkedNamespaces namespaces = LinkedNamespaces.create()) {
      for (String host : namespaces.names()) {
        // The table of local addresses comes first, and would let everything in.
        LinkedNamespaces.must("ip -n " + host + " rule add pref 100 lookup local");
        LinkedNamespaces.must(
            "ip -n "
                + host
                + " rule add pref 10 iif "
                + LinkedNamespaces.LINK
                + " ipproto tcp sport "
                + HIGH_PORTS
                + " dport "
                + HIGH_PORTS
                + " blackhole");
        LinkedNamespaces.must("ip -n " + host + " rule del pref 0");
      }
      List<String> command = new ArrayList<>(List.of("launch", "-n", "2", "--hosts"));
      command.add(String.join(",", namespaces.names()));
      command.add("--");
      command.addAll(CliProcess.command(words(joined(" --nodes 2 --wire tcp"))));

      CommandLineRun run = run(world("512m", "", ""), command);

      assertThat(run.code()).as("%s", run).isNotEqualTo(ExitCodes.OK);
      assertThat(run.err())
          .as("every rank names the cause")
          .contains("[0] ep4j: EP4J-5003", "[1] ep4j: EP4J-5003", "firewall");
      assertNothingIsLeft(run);
    }
  }

  /** Every rank is process 1 of its namespace, as in containers that share memory. */
  @Test
  void ranksInProcessNamespacesOfTheirOwnAreRight() throws Exception {
    assertThat(succeeds("unshare", "--pid", "--fork", "--mount-proc", "true"))
        .as("root can make process namespaces")
        .isTrue();

    assertRight(
        run(
            world("512m", "", ""),
            3,
            List.of("unshare", "--pid", "--fork", "--kill-child", "--mount-proc"),
            joined("")));
  }

  /** Pods of one host mount directories of one volume as their shared memory ({@code subPath}). */
  @Test
  void directoriesOfOneVolumeAsSharedMemoryMakeTwoNodes() throws Exception {
    List<Path> directories = new ArrayList<>();
    for (int rank = 0; rank < 2; rank++) {
      directories.add(Files.createDirectory(scratch.resolve("shm" + rank)));
    }
    String mount = "mount --bind " + scratch + "/shm$EP4J_RANK /dev/shm && exec \"$@\"";

    CommandLineRun run =
        run(
            world("512m", "", ""),
            directories.size(),
            List.of("unshare", "-m", "sh", "-c", mount, "sh"),
            joined(""));

    assertRight(run);
    assertThat(run.err())
        .contains("ranks 0 and 1 run on one host but do not share /dev/shm", "--ipc=host");
    for (Path directory : directories) {
      assertThat(directory).isEmptyDirectory();
    }
  }

  /** The second world must not take the files of the first for abandoned. */
  @Test
  void twoWorldsWithTheSameProcessNumbersShareADirectory() throws Exception {
    List<String> both =
        List.of(
            "sh", "-c", "\"$@\" & first=$!; \"$@\"; second=$?; wait $first && exit $second", "sh");
    List<String> launcher = new ArrayList<>(world("512m", "", ""));
    launcher.addAll(both);

    CommandLineRun run =
        run(
            launcher,
            2,
            List.of("unshare", "--pid", "--fork", "--kill-child", "--mount-proc"),
            joined(""));

    assertRight(run);
    assertThat(run.out().lines().filter(line -> line.contains("verified again"))).hasSize(2);
  }

  @Test
  void fourRanksOnOneProcessorAreRight() throws Exception {
    String one = "taskset -c $(taskset -cp $$ | sed 's/.*: //; s/[,-].*//')";
    assumeTrue(succeeds("taskset", "--version"), "no taskset here");

    assertRight(run(world("512m", "", one), processes(4)));
  }

  @Test
  void ranksWithHalfAProcessorAreRight() throws Exception {
    Path ofFirstVersion = Path.of("/sys/fs/cgroup/cpu");
    boolean first = Files.isDirectory(ofFirstVersion);
    Path group =
        (first ? ofFirstVersion : Path.of("/sys/fs/cgroup"))
            .resolve("ep4j-faults-" + ProcessHandle.current().pid());
    try {
      Files.createDirectory(group);
      if (first) {
        Files.writeString(group.resolve("cpu.cfs_quota_us"), "50000");
      } else {
        Files.writeString(group.resolve("cpu.max"), "50000 100000");
      }
    } catch (IOException e) {
      Files.deleteIfExists(group);
      assumeTrue(false, "no control group with a quota of processor time here: " + e);
    }
    try {
      assertRight(run(world("512m", "echo $$ >" + group + "/cgroup.procs", ""), processes(2)));
    } finally {
      delete(group);
    }
  }

  @Test
  void aRootThatCannotBeWrittenIsEnough() throws Exception {
    String readOnly = "mount -o remount,bind,ro / && ! touch /tmp/ep4j-faults 2>/dev/null";
    assumeTrue(
        succeeds("unshare", "-m", "sh", "-c", readOnly), "the root cannot be mounted read-only");

    assertRight(run(world("512m", readOnly, ""), processes(2)));
  }

  /** The user with the least rights, and one without an entry, both without a directory. */
  @ParameterizedTest
  @ValueSource(ints = {65534, 54321})
  void usersWithoutADirectoryAreEnough(int user) throws Exception {
    // They may read this clone and its jars, which root may have put where only root can read.
    String become =
        "env -u HOME setpriv --reuid "
            + user
            + " --regid "
            + user
            + " --clear-groups --inh-caps=-all,+dac_read_search"
            + " --ambient-caps=-all,+dac_read_search";
    assumeTrue(succeeds("sh", "-c", become + " true"), "setpriv cannot change the user here");

    assertRight(run(world("512m", "", become), processes(2)));
  }

  @Test
  void hostsWithoutIpv6AreEnough() throws Exception {
    String without =
        "ip link set lo up && echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6"
            + " && ! ip -6 addr | grep -q inet6";
    assumeTrue(succeeds("unshare", "-mn", "sh", "-c", without), "IPv6 cannot be switched off here");
    List<String> world = new ArrayList<>(world("512m", without, ""));
    world.set(world.indexOf("-m"), "-mn");

    assertRight(run(world, processes(2) + " --nodes 2 --wire tcp"));
  }

  /** Deletes a control group, which is possible when its last process has ended. */
  private static void delete(Path group) throws Exception {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
    while (true) {
      try {
        Files.deleteIfExists(group);
        return;
      } catch (IOException e) {
        if (System.nanoTime() > deadline) {
          throw e;
        }
        TimeUnit.MILLISECONDS.sleep(20);
      }
    }
  }

  private static String processes(int ranks) {
    return "bench ht --processes --ranks " + ranks + SIZES;
  }

  private static String joined(String options) {
    return "bench ht --join" + SIZES + options;
  }

  /**
   * A shell with a {@code /dev/shm} of its own that runs the command behind it, then lists what is
   * left there.
   *
   * @param size of the file system
   * @param setup shell commands before; empty for none
   * @param prefix a command that runs the one behind it; empty for none
   */
  private static List<String> world(String size, String setup, String prefix) {
    String script =
        "mount -t tmpfs -o mode=1777,size=%s tmpfs /dev/shm && %s%s \"$@\"; code=$?;"
                .formatted(size, setup.isEmpty() ? "" : setup + " && ", prefix)
            + " ls -A /dev/shm | sed 's/^/left: /'; exit $code";
    return List.of("unshare", "-m", "sh", "-c", script, "sh");
  }

  /** A world of launched ranks, each behind the command {@code inside}. */
  private CommandLineRun run(List<String> world, int ranks, List<String> inside, String command)
      throws Exception {
    List<String> launch = new ArrayList<>(List.of("launch", "-n", String.valueOf(ranks), "--"));
    launch.addAll(inside);
    launch.addAll(CliProcess.command(words(command)));
    return run(world, launch);
  }

  private CommandLineRun run(List<String> world, String command) throws Exception {
    return run(world, Arrays.asList(words(command)));
  }

  private CommandLineRun run(List<String> world, List<String> command) throws Exception {
    try (CliProcess process =
        CliProcess.startIn(world, scratch, Map.of(), command.toArray(String[]::new))) {
      return process.end(DEADLINE);
    }
  }

  private static String[] words(String command) {
    return command.split(" ", -1);
  }

  private static void assertRight(CommandLineRun run) {
    assertThat(run.code()).as("%s", run).isEqualTo(ExitCodes.OK);
    assertThat(run.out()).contains(RIGHT);
    assertNothingIsLeft(run);
  }

  private static void assertNothingIsLeft(CommandLineRun run) {
    assertThat(run.out()).doesNotContain("left: ");
    // The code of errors that ep4j does not expect.
    assertThat(run.err()).doesNotContain("EP4J-8900");
  }

  private static boolean succeeds(String... command) throws InterruptedException {
    try {
      Process process =
          new ProcessBuilder(command)
              .redirectErrorStream(true)
              .redirectOutput(ProcessBuilder.Redirect.DISCARD)
              .start();
      boolean ended = process.waitFor(20, TimeUnit.SECONDS);
      process.destroyForcibly();
      return ended && process.exitValue() == 0;
    } catch (IOException e) {
      return false;
    }
  }
}
