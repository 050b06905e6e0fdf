package org.ep4j.cuda.backend;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.Gpu;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.memory.Participants;
import org.junit.jupiter.api.Test;

class BackendsTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(20);

  @Test
  void directIsOnTheModulePath() {
    assertThat(Backends.providers()).extracting(BackendProvider::name).contains("direct");
  }

  @Test
  void problemOfOneRankIsReportedOnAll() {
    assertThatThrownBy(
            () -> check(location("2.28.9", ""), location("", "no libfoo here: install foo")))
        .isInstanceOf(EngineUnavailableException.class)
        .hasMessage(
            ErrorCode.BACKEND_UNUSABLE.message(
                "backend 'foo' cannot be used on rank 1: no libfoo here: install foo; the backend"
                    + " 'direct' needs no library"));
  }

  @Test
  void differingVersionsAreRefusedWithBothRanks() {
    assertThatThrownBy(
            () -> check(location("2.28.9", ""), location("2.28.9", ""), location("2.30.7", "")))
        .isInstanceOf(ConfigurationMismatchException.class)
        .hasMessageStartingWith(ErrorCode.BACKEND_VERSIONS_DIFFER.id())
        .hasMessageContaining("rank 0 has version 2.28.9, rank 2 has version 2.30.7");
    assertThatCode(() -> check(location("2.28.9", ""), location("2.28.9", "")))
        .doesNotThrowAnyException();
  }

  @Test
  void ranksOnOneDeviceOrInOneProcessAreFound() {
    List<RankLocation> locations =
        List.of(
            new RankLocation("bus 1", "a", "", ""),
            new RankLocation("bus 2", "b", "", ""),
            new RankLocation("bus 1", "c", "", ""),
            new RankLocation("bus 3", "b", "", ""));
    Participants participants = Participants.ofAll(Group.inProcess(4).getFirst());
    assertThat(BackendWorld.sharing(participants, locations, RankLocation::device))
        .containsExactly(0, 2);
    assertThat(BackendWorld.sharing(participants, locations, RankLocation::process))
        .containsExactly(1, 3);
    assertThat(BackendWorld.sharing(participants, locations.subList(0, 2), RankLocation::process))
        .isNull();
    assertThat(IntStream.range(0, 4).filter(r -> BackendWorld.isFirstOnDevice(locations, r)))
        .containsExactly(0, 1, 3);
  }

  @Test
  void allRanksAgreeOnACondition() {
    ThreadRanks.run(
        3,
        group -> {
          assertThat(BackendWorld.all(group, true, TIMEOUT)).isTrue();
          assertThat(BackendWorld.all(group, group.rank() != 1, TIMEOUT)).isFalse();
        });
  }

  /** A library that one rank refuses would leave the others in its collective start. */
  @Test
  void noRankEntersALibraryThatAnotherOneRefuses() {
    AtomicInteger opened = new AtomicInteger();
    ThreadRanks.run(
        3,
        group ->
            assertThatThrownBy(() -> Backends.meet(new Refused(opened), world(group)))
                .isInstanceOf(EngineUnavailableException.class)
                .hasMessageStartingWith(ErrorCode.RANK_OPEN_FAILED.id())
                .hasMessageContaining("rank 1: backend 'refused': EP4J-6111: in use"));
    assertThat(opened).hasValue(0);
  }

  @SuppressWarnings("NullAway") // no device is used
  private static BackendWorld world(Group group) {
    return new BackendWorld(
        Participants.ofAll(group),
        null,
        TIMEOUT,
        IntStream.range(0, group.size()).mapToObj(r -> location("", "")).toList());
  }

  /** A backend that rank 1 cannot open. */
  private record Refused(AtomicInteger opened) implements BackendProvider {
    @Override
    public String name() {
      return "refused";
    }

    @Override
    public BackendProbe probe() {
      return BackendProbe.found("", "", List.of());
    }

    @Override
    public void prepare(BackendWorld world, byte[] id) {
      if (world.participants().rank() == 1) {
        throw new EngineUnavailableException(ErrorCode.BACKEND_UNUSABLE, "in use");
      }
    }

    @Override
    public Backend open(BackendWorld world, byte[] id) {
      opened.incrementAndGet();
      throw new EngineUnavailableException(ErrorCode.BACKEND_UNUSABLE, "entered");
    }
  }

  @Test
  void locationSurvivesEncoding() {
    RankLocation location =
        new RankLocation("0000:01:00.0", "1234", "2.28.9", "größer\nals gedacht");
    assertThat(RankLocation.of(location.encoded())).isEqualTo(location);
  }

  @Test
  void anUnknownNameIsRefusedOnAllRanks() {
    Gpu.require(1);
    ThreadRanks.run(
        2,
        group -> {
          try (CudaDevice device = CudaDevice.open(0)) {
            assertThatThrownBy(
                    () -> Backends.open("ncll", Participants.ofAll(group), device, TIMEOUT))
                .isInstanceOf(EngineUnavailableException.class)
                .hasMessageStartingWith(ErrorCode.BACKEND_UNUSABLE.id())
                .hasMessageContaining("rank 0: no such backend; use one of: auto, direct");
          }
        });
  }

  @Test
  void directReturnsAddressesOfThePeersMemory() {
    Gpu.require(1);
    ThreadRanks.run(
        2,
        group -> {
          Participants participants = Participants.ofAll(group);
          try (CudaDevice device = CudaDevice.open(group.rank() % CudaDevice.count());
              Backend backend = Backends.open("direct", participants, device, TIMEOUT)) {
            device.makeCurrent();
            try (SymmetricRegion region = backend.allocate(4096)) {
              region.memory().copyFrom(0, MemorySegment.ofArray(new byte[4096]));
              boolean[] wanted = {group.rank() != 0, group.rank() != 1};
              PeerRegion[] peers = region.reach(participants, wanted, TIMEOUT);
              PeerCheck.check(backend.world(), region.memory(), peers);
              // With a wrong address, the check reports it.
              int peer = 1 - group.rank();
              PeerRegion real = peers[peer];
              peers[peer] = new Elsewhere(region.memory().address());
              assertThatThrownBy(() -> PeerCheck.check(backend.world(), region.memory(), peers))
                  .isInstanceOf(Ep4jException.class)
                  .hasMessageStartingWith(ErrorCode.RANK_OPEN_FAILED.id())
                  .hasMessageContaining("is not the memory of rank");
              real.close();
              backend.barrier(TIMEOUT);
            }
          }
        });
  }

  private record Elsewhere(long address) implements PeerRegion {
    @Override
    public void close() {}
  }

  private static void check(RankLocation... locations) {
    Participants participants = Participants.ofAll(Group.inProcess(locations.length).getFirst());
    Backends.checkLocations("foo", participants, List.of(locations));
  }

  private static RankLocation location(String version, String problem) {
    return new RankLocation("bus", "process", version, problem);
  }
}
