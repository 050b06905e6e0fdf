package org.ep4j.group.rendezvous;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.ep4j.group.Group;
import org.ep4j.group.GroupConfig;
import org.ep4j.group.TcpWorld;
import org.ep4j.memory.SymmetricMemory;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class JobFilesTest {
  private static final String SECRET = "a long = random\ntext \u00e4";

  @TempDir Path scratch;

  @Test
  void aFileIsOfThisUserAloneAndHoldsWhatAnObserverNeeds() throws IOException {
    Path file = requireNonNull(write(shared("")));
    assertThat(mode(file)).isEqualTo("rw-------");
    assertThat(mode(file.getParent())).isEqualTo("rwx------");
    assertThat(file.getParent()).isEqualTo(scratch.resolve("ep4j-" + user()));
    assertThat(list(file.getParent())).containsExactly(file);
    JobFiles.Job job = JobFiles.find(shared("")).getFirst();
    assertThat(job.rendezvous()).isEqualTo("node7:4711");
    assertThat(job.address()).isEqualTo(address());
    assertThat(job.secret()).isEqualTo(SECRET);
    assertThat(job)
        .hasToString(
            "node7:4711 (job 0123abcd 'nightly', 4 ranks, process %d)"
                .formatted(ProcessHandle.current().pid()));

    Path second = requireNonNull(write(shared("")));
    assertThat(JobFiles.find(shared(""))).hasSize(2);
    JobFiles.delete(file);
    assertThat(list(file.getParent())).containsExactly(second);
    JobFiles.delete(second);
    assertThat(second.getParent()).doesNotExist();
  }

  @Test
  void theSwitchDisablesFiles() throws IOException {
    for (String value : List.of("0", "false", "off")) {
      assertThat(write(shared(value))).as(value).isNull();
    }
    assertThat(list(scratch)).isEmpty();
    for (String value : List.of("1", "true", " ")) {
      assertThat(write(shared(value))).as(value).isNotNull();
    }
  }

  @Test
  void aDirectoryThatOthersMayHaveMadeIsNotUsed() throws IOException {
    Path file = requireNonNull(write(shared("")));
    Path directory = requireNonNull(file.getParent());

    Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwxr-x---"));
    assertIsNotUsed(directory, file);
    Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwx------"));
    assertThat(JobFiles.find(shared(""))).hasSize(1);

    Path target = Files.move(directory, scratch.resolve("target"));
    Files.createSymbolicLink(directory, target);
    assertIsNotUsed(directory, file);
    Files.delete(directory);
    Files.move(target, directory);

    assumeTrue(user().equals("0"), "only root can make a directory of another user");
    Files.setAttribute(directory, "unix:uid", 1);
    assertIsNotUsed(directory, file);
  }

  private void assertIsNotUsed(Path directory, Path file) throws IOException {
    assertThat(write(shared(""))).isNull();
    assertThat(JobFiles.find(shared(""))).isEmpty();
    assertThat(list(directory)).containsExactly(file);
  }

  @Test
  void aFileThatOthersMayReadOrThatIsALinkIsNotRead() throws IOException {
    Path file = requireNonNull(write(shared("")));
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-r--r--"));
    assertThat(JobFiles.find(shared(""))).isEmpty();
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-------"));
    assertThat(JobFiles.find(shared(""))).hasSize(1);
    Files.createSymbolicLink(file, Files.move(file, scratch.resolve("elsewhere")));
    assertThat(JobFiles.find(shared(""))).isEmpty();
    Files.delete(file);
    Files.writeString(file, "port=none\n");
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-------"));
    assertThat(JobFiles.find(shared(""))).isEmpty();
  }

  @Test
  void aFileThatLacksALineIsNotRead() throws IOException {
    Path file = requireNonNull(write(shared("")));
    List<String> lines = Files.readAllLines(file);
    for (String left : lines) {
      if (!left.startsWith("#")) {
        Files.write(file, lines.stream().filter(line -> !line.equals(left)).toList());
        assertThat(JobFiles.find(shared(""))).as(left).isEmpty();
      }
    }
    Files.write(file, lines);
    assertThat(JobFiles.find(shared(""))).hasSize(1);
  }

  @Test
  void theDirectoryIsThatOfSharedMemory() throws IOException {
    for (Map<String, String> environment : List.of(shared(""), Map.of("EP4J_SHM_DIR", " "))) {
      Path file = requireNonNull(write(environment));
      assertThat(requireNonNull(file.getParent()).getParent())
          .isEqualTo(SymmetricMemory.directory(environment));
      JobFiles.delete(file);
    }
  }

  /** Its first host has died, and no process of this host can listen at that address. */
  @Test
  void aMovedRendezvousIsNamedByItsNewAddress() throws Exception {
    GroupConfig config =
        GroupConfig.builder().rank(1).size(2).rendezvous("192.0.2.1", 4711).secret(SECRET).build();
    BitSet gone = new BitSet();
    gone.set(0);
    InetAddress here = InetAddress.getLoopbackAddress();
    try (Rendezvous moved =
        Rendezvous.forSameRanks(config, here, "moved-job", gone, new int[] {0, 0})) {
      assertThat(JobFiles.find(System.getenv()))
          .filteredOn(job -> job.description().contains("moved-job"))
          .singleElement()
          .satisfies(
              job -> {
                assertThat(job.rendezvous()).startsWith(here.getHostAddress() + ":");
                assertThat(job.rendezvous()).endsWith(":" + job.address().getPort());
                assertThat(job.address()).isEqualTo(moved.reachedFromHere());
              });
    }
  }

  @Test
  void filesOfProcessesThatHaveEndedAreDeleted() throws Exception {
    Path file = requireNonNull(write(shared("")));
    String[] name = file.getFileName().toString().split("-", -1);
    Process process = new ProcessBuilder("true").start();
    assertThat(process.waitFor(60, TimeUnit.SECONDS)).isTrue();
    Path ended = named(file, name[0], Long.toString(process.pid()), name[2], "9.job");
    Path half = named(file, name[0], Long.toString(process.pid()), name[2], "9.new");
    Path sameNumber = named(file, name[0], name[1], "1", "9.job");
    Path ofContainer = named(file, "1", "1", "1", "9.job");
    Path foreign = Files.writeString(file.resolveSibling("readme"), "");
    assertThat(JobFiles.find(shared(""))).hasSize(1);
    assertThat(list(file.getParent()))
        .doesNotContain(ended, half, sameNumber)
        .containsExactlyInAnyOrder(file, ofContainer, foreign);

    Path again = named(file, name[0], name[1], "1", "9.job");
    write(shared(""));
    assertThat(again).as("a writer sweeps, too").doesNotExist();
  }

  private static Path named(Path file, String... parts) throws IOException {
    return Files.copy(file, file.resolveSibling(String.join("-", parts)));
  }

  @Test
  void aDirectoryThatCannotBeMadeCostsTheJobNothing() throws IOException {
    Path plain = Files.createFile(scratch.resolve("file"));
    for (String shared : List.of("/proc", scratch + "/missing", plain.toString(), "\0")) {
      assertThat(write(Map.of("EP4J_SHM_DIR", shared))).as(shared).isNull();
      assertThat(JobFiles.find(Map.of("EP4J_SHM_DIR", shared))).as(shared).isEmpty();
    }
  }

  @Test
  void aJobHasAFileUntilItsLauncherClosesTheRendezvous() {
    String where;
    try (TcpWorld world = new TcpWorld(2)) {
      where = "127.0.0.1:" + world.rendezvous.address().getPort();
      JobFiles.Job job = requireNonNull(found(where));
      assertThat(job.address()).isEqualTo(world.rendezvous.address());
      assertThat(job.secret()).isEqualTo(TcpWorld.SECRET);
      assertThat(job.description()).contains(world.rendezvous.jobId(), "2 ranks");
    }
    assertThat(found(where)).isNull();
  }

  @Test
  void aJobHasAFileUntilTheRankThatHostsItLeaves() {
    int port = TcpWorld.freePort();
    String where = "127.0.0.1:" + port;
    GroupConfig config =
        TcpWorld.config(1).toBuilder().rendezvous("127.0.0.1", port).hostsRendezvous(true).build();
    try (Group group = Group.join(config)) {
      assertThat(requireNonNull(found(where)).description()).contains(group.jobId(), "1 ranks");
    }
    assertThat(found(where)).isNull();
  }

  @Test
  void survivorsHaveAFileOfTheirOwn() throws Exception {
    try (TcpWorld world = new TcpWorld(3)) {
      List<Group> groups = world.joinAll();
      groups.getLast().close();
      List<Group> live = new ArrayList<>(groups.subList(0, 2));
      TcpWorld.inEach(live, group -> world.keep(group.survivors(TcpWorld.LONG)));
      String id = world.rendezvous.jobId() + "-";
      assertThat(JobFiles.find(System.getenv()))
          .filteredOn(job -> job.description().contains("job " + id))
          .singleElement()
          .satisfies(job -> assertThat(job.description()).contains("2 ranks"));
    }
  }

  private static JobFiles.@Nullable Job found(String where) {
    return JobFiles.find(System.getenv()).stream()
        .filter(job -> job.rendezvous().equals(where))
        .findFirst()
        .orElse(null);
  }

  private Map<String, String> shared(String value) {
    return Map.of("EP4J_SHM_DIR", scratch.toString(), "EP4J_JOB_FILES", value);
  }

  private static InetSocketAddress address() {
    return new InetSocketAddress(InetAddress.getLoopbackAddress(), 4711);
  }

  private static @Nullable Path write(Map<String, String> environment) {
    GroupConfig config =
        GroupConfig.builder()
            .size(4)
            .rendezvous("node7", 0)
            .secret(SECRET)
            .job("nightly")
            .hostsRendezvous(false)
            .build();
    GroupPlan plan = GroupPlan.of(config, -1, "0123abcd");
    return JobFiles.write(environment, config.host(), config.secret(), plan, address());
  }

  private static String mode(@Nullable Path file) throws IOException {
    return PosixFilePermissions.toString(Files.getPosixFilePermissions(requireNonNull(file)));
  }

  private String user() throws IOException {
    Path own = Files.createTempFile(scratch, "own", "");
    String user = String.valueOf(Files.getAttribute(own, "unix:uid"));
    Files.delete(own);
    return user;
  }

  private static List<Path> list(@Nullable Path directory) throws IOException {
    try (Stream<Path> all = Files.list(requireNonNull(directory))) {
      return all.toList();
    }
  }
}
