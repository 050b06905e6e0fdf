package org.ep4j.nvshmem;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.ep4j.conformance.world.StubLibraries;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.backend.RankLocation;
import org.ep4j.group.Group;
import org.ep4j.memory.Participants;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The transport that NVSHMEM reads from its environment, by the hosts of the ranks. */
class NvshmemNetworkTest {
  private static final String FIRST_RANK = "id";
  private static final String OTHER_RANK = "start";
  private static final String ONE_HOST = "a a";
  private static final String TWO_HOSTS = "a b";

  @TempDir private Path directory;

  /** Calls NVSHMEM for ranks on the hosts of its environment, one world after the other. */
  public static final class Worlds {
    private Worlds() {}

    /** Entry point. */
    public static void main(String... arguments) {
      for (String hosts : System.getenv("HOSTS").split(",")) {
        BackendWorld world = world(hosts.split(" "));
        try {
          if (System.getenv("CALL").equals(FIRST_RANK)) {
            new NvshmemBackendProvider().uniqueId(world);
          } else {
            // The id is refused: all of the start that needs no other rank has been done.
            NvshmemRuntime.start(world, new byte[1]);
          }
        } catch (NvshmemException e) {
          System.out.println(e.getMessage());
        }
      }
      NvshmemCalls.rank();
    }

    @SuppressWarnings("NullAway") // no device is used
    private static BackendWorld world(String... hosts) {
      List<RankLocation> locations = new ArrayList<>();
      for (String host : hosts) {
        locations.add(
            new RankLocation("0000:0" + locations.size() + ":00.0 of " + host, "", "", ""));
      }
      return new BackendWorld(
          Participants.ofAll(Group.inProcess(1).getFirst()),
          null,
          Duration.ofSeconds(1),
          locations);
    }
  }

  @Test
  void ranksOfOneHostHaveNoTransport() throws IOException, InterruptedException {
    assertThat(transport(FIRST_RANK, ONE_HOST, Map.of())).endsWith("transport none");
    assertThat(transport(OTHER_RANK, ONE_HOST, Map.of())).endsWith("transport none");
  }

  @Test
  void ranksOfSeveralHostsHaveTheTransportThatNvshmemChooses()
      throws IOException, InterruptedException {
    assertThat(transport(FIRST_RANK, TWO_HOSTS, Map.of())).endsWith("transport (null)");
    assertThat(transport(OTHER_RANK, TWO_HOSTS, Map.of())).endsWith("transport (null)");
  }

  @Test
  void theTransportOfTheUserIsKept() throws IOException, InterruptedException {
    assertThat(transport(FIRST_RANK, ONE_HOST, Map.of(NvshmemNetwork.VARIABLE, "ucx")))
        .endsWith("transport ucx");
  }

  @Test
  void ranksOfSeveralHostsAreRefusedWhereAnEarlierWorldHadNoTransport()
      throws IOException, InterruptedException {
    assertThat(transport(OTHER_RANK, ONE_HOST + "," + TWO_HOSTS, Map.of()))
        .contains("EP4J-6502")
        .contains("set NVSHMEM_REMOTE_TRANSPORT")
        .endsWith("transport none");
  }

  private String transport(String call, String hosts, Map<String, String> variables)
      throws IOException, InterruptedException {
    StringBuilder source = new StringBuilder("#include <stdio.h>\n#include <stdlib.h>\n");
    for (NvshmemFunction function : NvshmemFunction.values()) {
      if (function != NvshmemFunction.MY_PE) {
        source.append("int ").append(function.symbol()).append("(void) { return 0; }\n");
      }
    }
    source
        .append("int ")
        .append(NvshmemFunction.MY_PE.symbol())
        .append("(void) { printf(\"transport %s\\n\", getenv(\"")
        .append(NvshmemNetwork.VARIABLE)
        .append("\")); return 0; }\n");
    Path library = StubLibraries.compile(directory, "libnvshmem_host.so.3", source.toString());
    Map<String, String> all = new TreeMap<>(variables);
    all.put("EP4J_NVSHMEM_HOME", library.toString());
    all.put("CALL", call);
    all.put("HOSTS", hosts);
    return StubLibraries.run(Worlds.class, all);
  }
}
