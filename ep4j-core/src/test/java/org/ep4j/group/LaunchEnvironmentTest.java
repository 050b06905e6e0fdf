package org.ep4j.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class LaunchEnvironmentTest {
  private static LaunchEnvironment of(String... namesAndValues) {
    Map<String, String> variables = new HashMap<>();
    for (int i = 0; i < namesAndValues.length; i += 2) {
      variables.put(namesAndValues[i], namesAndValues[i + 1]);
    }
    return LaunchEnvironment.of(variables);
  }

  private static GroupConfig config(String... namesAndValues) {
    return Objects.requireNonNull(of(namesAndValues).config());
  }

  private static void assertPlace(GroupConfig config, int rank, int size, String rendezvous) {
    assertThat(config.rank()).isEqualTo(rank);
    assertThat(config.size()).isEqualTo(size);
    assertThat(config.host() + ":" + config.port()).isEqualTo(rendezvous);
    assertThat(config.hostsRendezvous()).isEqualTo(rank == 0);
  }

  @Test
  void withoutAnyVariableTheProcessIsAlone() {
    LaunchEnvironment environment = of("PATH", "/bin", "EP4J_RANK", " ");
    assertThat(environment.config()).isNull();
    assertThat(environment.launcher()).isEqualTo("none");
    try (Group group = environment.join()) {
      assertThat(group.size()).isEqualTo(1);
      group.barrier(Duration.ZERO);
    }
  }

  @Test
  void torchrunIsUnderstood() {
    LaunchEnvironment environment =
        of(
            "RANK",
            "5",
            "WORLD_SIZE",
            "8",
            "LOCAL_RANK",
            "1",
            "MASTER_ADDR",
            "10.0.0.7",
            "MASTER_PORT",
            "29500",
            "TORCHELASTIC_RUN_ID",
            "abc");
    assertPlace(Objects.requireNonNull(environment.config()), 5, 8, "10.0.0.7:29500");
    assertThat(environment.localRank()).isEqualTo(1);
    assertThat(environment.launcher()).isEqualTo("torchrun");
    assertThat(environment.warnings())
        .singleElement()
        .asString()
        .isEqualTo(
            "EP4J_SECRET is not set, so any process that can reach 10.0.0.7:29500 can join this"
                + " job: set it to the same random text on all ranks");
  }

  @Test
  void besideTorchrunsOwnStoreTheNextPortIsTaken() {
    for (String port : new String[] {"29500", "65535"}) {
      GroupConfig config =
          config(
              "RANK",
              "0",
              "WORLD_SIZE",
              "2",
              "MASTER_ADDR",
              "h",
              "MASTER_PORT",
              port,
              "TORCHELASTIC_USE_AGENT_STORE",
              "True");
      assertThat(config.port()).isEqualTo(port.equals("29500") ? 29501 : 65534);
    }
  }

  @Test
  void openMpiOnOneHostNeedsNothingElse() {
    String[] job = {
      "OMPI_COMM_WORLD_RANK", "2",
      "OMPI_COMM_WORLD_SIZE", "4",
      "OMPI_COMM_WORLD_LOCAL_SIZE", "4",
      "OMPI_COMM_WORLD_LOCAL_RANK", "2",
      "PMIX_NAMESPACE", "1219756033"
    };
    GroupConfig config = config(job);
    assertPlace(config, 2, 4, "127.0.0.1:" + config.port());
    assertThat(config.port()).isBetween(16_384, 32_767);
    assertThat(of(job).localRank()).isEqualTo(2);
    assertThat(of(job).warnings()).isEmpty();
    String[] other = job.clone();
    other[9] = "1219756034";
    assertThat(config(other).port()).isNotEqualTo(config.port());
    assertThat(config(other).secret()).isNotEqualTo(config.secret());
  }

  @Test
  void openMpiOnSeveralHostsNeedsARendezvous() {
    String[] job = {
      "OMPI_COMM_WORLD_RANK", "2", "OMPI_COMM_WORLD_SIZE", "4", "OMPI_COMM_WORLD_LOCAL_SIZE", "2"
    };
    assertThatThrownBy(() -> of(job))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.LAUNCH_VARIABLE_MISSING.id())
        .hasMessageContaining("OMPI_COMM_WORLD_RANK")
        .hasMessageContaining("EP4J_RENDEZVOUS");
  }

  @ParameterizedTest
  @CsvSource({
    "MPICH or Intel MPI, PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS, 4",
    "MVAPICH, MV2_COMM_WORLD_RANK, MV2_COMM_WORLD_SIZE, MV2_COMM_WORLD_LOCAL_RANK,"
        + " MV2_COMM_WORLD_LOCAL_SIZE, 4",
    "Flux, FLUX_TASK_RANK, FLUX_JOB_SIZE, FLUX_TASK_LOCAL_ID, FLUX_JOB_NNODES, 1",
  })
  void otherLaunchersAreUnderstood(
      String launcher, String rank, String size, String localRank, String hosts, String all) {
    String[] job = {rank, "2", size, "4", localRank, "1", hosts, all};
    assertPlace(config(job), 2, 4, "127.0.0.1:" + config(job).port());
    assertThat(of(job).launcher()).isEqualTo(launcher);
    assertThat(of(job).localRank()).isEqualTo(1);
    assertThatThrownBy(() -> of(rank, "2", size, "4", localRank, "1"))
        .hasMessageStartingWith(ErrorCode.LAUNCH_VARIABLE_MISSING.id())
        .hasMessageContaining("EP4J_RENDEZVOUS");
  }

  @Test
  void ranksOfHydraInAJobOfSlurmMeetAtItsFirstHost() {
    GroupConfig config =
        config(
            "PMI_RANK", "5",
            "PMI_SIZE", "8",
            "SLURM_PROCID", "1",
            "SLURM_STEP_NUM_TASKS", "2",
            "SLURM_STEP_ID", "0",
            "SLURM_JOB_NODELIST", "gpu[07-08]");
    assertPlace(config, 5, 8, "gpu07:" + config.port());
  }

  @Test
  void pmixAloneNeedsTheWorldSize() {
    assertThatThrownBy(() -> of("PMIX_RANK", "1"))
        .hasMessageStartingWith(ErrorCode.LAUNCH_VARIABLE_MISSING.id())
        .hasMessageContaining("EP4J_WORLD_SIZE");
    assertPlace(
        config("PMIX_RANK", "1", "EP4J_WORLD_SIZE", "2", "EP4J_RENDEZVOUS", "h:1"), 1, 2, "h:1");
  }

  @Test
  void aVariableThatLooksLikeARankIsWarnedOf() {
    LaunchEnvironment environment = of("PALS_RANKID", "3", "SLURM_PROCID", "0", "A_RANK", "high");
    assertThat(environment.config()).isNull();
    assertThat(environment.warnings())
        .singleElement()
        .asString()
        .contains("world of one rank", "PALS_RANKID = 3", "EP4J_WORLD_SIZE")
        .doesNotContain("SLURM_PROCID", "A_RANK");
    assertThat(of("PATH", "/bin").warnings()).isEmpty();
  }

  @Test
  void slurmMeetsAtTheFirstHostOfTheStep() {
    GroupConfig config =
        config(
            "SLURM_PROCID",
            "3",
            "SLURM_STEP_NUM_TASKS",
            "8",
            "SLURM_NTASKS",
            "16",
            "SLURM_LOCALID",
            "3",
            "SLURM_JOB_ID",
            "42",
            "SLURM_STEP_ID",
            "0",
            "SLURM_STEP_NUM_NODES",
            "2",
            "SLURM_STEP_NODELIST",
            "gpu[07-08]",
            "SLURM_JOB_NODELIST",
            "gpu[01-08]");
    assertPlace(config, 3, 8, "gpu07:" + config.port());
  }

  @Test
  void slurmOnOneHostMeetsAtLoopback() {
    GroupConfig config =
        config(
            "SLURM_PROCID",
            "0",
            "SLURM_NTASKS",
            "2",
            "SLURM_STEP_ID",
            "1",
            "SLURM_NNODES",
            "1",
            "SLURM_JOB_NODELIST",
            "gpu07");
    assertPlace(config, 0, 2, "127.0.0.1:" + config.port());
  }

  @Test
  void aBatchScriptIsNoTaskOfAStep() {
    assertThat(of("SLURM_PROCID", "0", "SLURM_NTASKS", "8", "SLURM_JOB_ID", "7").config()).isNull();
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "n1|n1",
        "n1,n2|n1",
        "gpu[07-08]|gpu07",
        "gpu[003,010-012]|gpu003",
        "rack1-[03-10,17],login|rack1-03",
        "r[1-2]n[5-6]x|r1n5x",
      })
  void theFirstHostOfAListIsFound(String list, String first) {
    assertThat(EnvironmentReader.firstHost(list)).isEqualTo(first);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {"gpu[07|''", "[|''", ",n1|''"})
  void anInvalidListIsRefused(String list, String ignored) {
    assertThatThrownBy(() -> EnvironmentReader.firstHost(list))
        .hasMessageStartingWith(ErrorCode.LAUNCH_VARIABLE.id())
        .hasMessageContaining("'" + list + "'");
  }

  @Test
  void kubernetesIndexedJobsAreUnderstood() {
    LaunchEnvironment environment =
        of(
            "JOB_COMPLETION_INDEX",
            "1",
            "WORLD_SIZE",
            "4",
            "MASTER_ADDR",
            "moe-0.moe",
            "MASTER_PORT",
            "29400",
            "EP4J_SECRET",
            "x");
    assertPlace(Objects.requireNonNull(environment.config()), 1, 4, "moe-0.moe:29400");
    assertThat(environment.localRank()).isZero();
    assertThat(environment.warnings()).isEmpty();
    assertThatThrownBy(() -> of("JOB_COMPLETION_INDEX", "1"))
        .hasMessageStartingWith(ErrorCode.LAUNCH_VARIABLE_MISSING.id())
        .hasMessageContaining("EP4J_WORLD_SIZE, WORLD_SIZE");
  }

  @Test
  void ourOwnVariablesOverrideAllOthersOneByOne() {
    GroupConfig config =
        config(
            "RANK",
            "5",
            "WORLD_SIZE",
            "8",
            "MASTER_ADDR",
            "h",
            "MASTER_PORT",
            "1",
            "EP4J_RENDEZVOUS",
            "[::1]:4000",
            "EP4J_SECRET",
            "mine",
            "EP4J_WORLD_SIZE",
            "6",
            "EP4J_JOIN_TIMEOUT_MS",
            "5000",
            "EP4J_HEARTBEAT_MS",
            "20",
            "EP4J_LIVENESS_MS",
            "100",
            "EP4J_JOB",
            "nightly");
    assertPlace(config, 5, 6, "::1:4000");
    assertThat(config.secret()).isEqualTo("mine");
    assertThat(config.job()).isEqualTo("nightly");
    assertThat(config.joinTimeout()).isEqualTo(Duration.ofSeconds(5));
    assertThat(config.heartbeatInterval()).isEqualTo(Duration.ofMillis(20));
    assertThat(config.livenessTimeout()).isEqualTo(Duration.ofMillis(100));
    assertThat(
            config(
                    "EP4J_RANK",
                    "0",
                    "EP4J_WORLD_SIZE",
                    "2",
                    "RANK",
                    "1",
                    "WORLD_SIZE",
                    "9",
                    "EP4J_RENDEZVOUS",
                    "h:1")
                .size())
        .isEqualTo(2);
  }

  @Test
  void aWorldOfOneNeedsNoRendezvous() {
    try (Group group = of("RANK", "0", "WORLD_SIZE", "1", "EP4J_SECRET", "x").join()) {
      assertThat(group.inProcess()).isTrue();
    }
    assertPlace(
        config("EP4J_RANK", "0", "EP4J_WORLD_SIZE", "1", "EP4J_RENDEZVOUS", "h:7"), 0, 1, "h:7");
  }

  @Test
  void theReportNamesTheSourceOfEachValueAndHidesTheSecret() {
    LaunchEnvironment environment =
        of(
            "RANK",
            "1",
            "WORLD_SIZE",
            "2",
            "MASTER_ADDR",
            "127.0.0.1",
            "MASTER_PORT",
            "29500",
            "EP4J_SECRET",
            "hush-hush");
    assertThat(environment.report())
        .contains(
            "launcher = torchrun (RANK is set)",
            "rank = 1 (RANK)",
            "world size = 2 (WORLD_SIZE)",
            "rendezvous = 127.0.0.1:29500 (MASTER_ADDR, MASTER_PORT)",
            "secret = given, weak (EP4J_SECRET)",
            "rendezvous host = rank 0 (default)",
            "liveness = 2000 ms (default)")
        .noneMatch(line -> line.contains("hush-hush"));
    assertThat(environment.toString()).doesNotContain("hush-hush");
  }

  @Test
  void allRanksOfAJobDeriveTheSameSecretAndOtherJobsAnother() {
    String[] job = {
      "RANK",
      "0",
      "WORLD_SIZE",
      "2",
      "MASTER_ADDR",
      "127.0.0.1",
      "MASTER_PORT",
      "29500",
      "TORCHELASTIC_RUN_ID",
      "a",
      "TORCHELASTIC_RESTART_COUNT",
      "0"
    };
    String[] peer = job.clone();
    peer[1] = "1";
    String[] restarted = job.clone();
    restarted[11] = "1";
    assertThat(config(peer).secret()).isEqualTo(config(job).secret()).isNotEmpty();
    assertThat(config(restarted).secret()).isNotEqualTo(config(job).secret());
  }

  @Test
  void variablesForAChildHaveAnAddressInBracketsOnce() {
    for (String host : new String[] {"::1", "[::1]"}) {
      GroupConfig config = GroupConfig.builder().rank(0).size(1).rendezvous(host, 4711).build();
      assertThat(LaunchEnvironment.variables(config, 0))
          .containsEntry("EP4J_RENDEZVOUS", "[::1]:4711");
    }
  }

  @Test
  void variablesForAChildAreReadBackAsTheSameConfiguration() {
    for (boolean hosts : new boolean[] {true, false}) {
      for (String host : new String[] {"127.0.0.1", "::1"}) {
        GroupConfig config =
            GroupConfig.builder()
                .rank(0)
                .size(3)
                .rendezvous(host, 4711)
                .secret("s")
                .job("j")
                .hostsRendezvous(hosts)
                .livenessTimeout(Duration.ofSeconds(7))
                .build();
        LaunchEnvironment read = LaunchEnvironment.of(LaunchEnvironment.variables(config, 2));
        assertThat(read.config()).isEqualTo(config);
        assertThat(read.localRank()).isEqualTo(2);
        assertThat(read.launcher()).isEqualTo("ep4j");
      }
    }
  }

  @Test
  void badValuesAreRefusedByName() {
    String[] good = {
      "EP4J_RANK", "0", "EP4J_WORLD_SIZE", "2", "EP4J_RENDEZVOUS", "h:1", "EP4J_SECRET", "s"
    };
    assertBad(good, 1, "x", "EP4J_RANK = 'x'; it must be an integer");
    assertBad(good, 1, "-1", "EP4J_RANK = -1; it must be at least 0");
    assertBad(good, 1, "2", "EP4J_RANK = 2; it must be less than the world size (2)");
    assertBad(good, 3, "0", "EP4J_WORLD_SIZE = 0; it must be at least 1");
    assertBad(good, 5, "h", "EP4J_RENDEZVOUS = 'h'; it must be host:port");
    assertBad(
        good,
        5,
        "h:0",
        "EP4J_RENDEZVOUS = 'h:0'; it must be host:port with a port from 1 to 65535");
    assertBad(good, 5, "h:p", "EP4J_RENDEZVOUS (port) = 'p'; it must be an integer");
    assertBad(good, 5, "[::1]", "EP4J_RENDEZVOUS = '[::1]'; it must be host:port");
    assertThatThrownBy(() -> of("EP4J_WORLD_SIZE", "2"))
        .hasMessageStartingWith(ErrorCode.LAUNCH_VARIABLE_MISSING.id())
        .hasMessageContaining("EP4J_WORLD_SIZE = 2");
    assertThatThrownBy(() -> of("RANK", "2"))
        .hasMessageStartingWith(ErrorCode.LAUNCH_VARIABLE_MISSING.id());
    assertThatThrownBy(
            () ->
                of(
                    "EP4J_RANK",
                    "0",
                    "EP4J_WORLD_SIZE",
                    "2",
                    "EP4J_RENDEZVOUS",
                    "h:1",
                    "EP4J_RENDEZVOUS_EXTERNAL",
                    "maybe"))
        .hasMessageStartingWith(ErrorCode.LAUNCH_VARIABLE.id())
        .hasMessageContaining("EP4J_RENDEZVOUS_EXTERNAL = 'maybe'; it must be true or false");
  }

  private static void assertBad(String[] good, int index, String value, String message) {
    String[] bad = good.clone();
    bad[index] = value;
    assertThatThrownBy(() -> of(bad))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.LAUNCH_VARIABLE.message(message));
  }
}
