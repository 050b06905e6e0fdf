package org.ep4j.rdma.softverbs;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.tuple;
import static org.ep4j.rdma.verbs.bindings.VerbsConstants.*;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.stream.LongStream;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.RankProcesses;
import org.ep4j.rdma.softverbs.DeviceEnd.Address;
import org.ep4j.rdma.softverbs.DeviceEnd.Done;
import org.ep4j.rdma.verbs.bindings.Verbs;
import org.ep4j.wire.WireException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;

/** What the emulated device promises, and what it refuses: below the wire, by single requests. */
@EnabledIf(
    value = "org.ep4j.rdma.softverbs.SoftVerbs#isBuilt",
    disabledReason = "only the Surefire execution soft-verbs has emulated devices, built by g++")
class SoftVerbsTest {
  static final int LOCAL_PROTECTION = 4;
  static final int REMOTE_INVALID = 9;
  static final int REMOTE_ACCESS = 10;
  static final int HALF_A_SECOND = 17;
  private static final Duration LIMIT = Duration.ofSeconds(60);

  @AfterEach
  void repairCables() throws Exception {
    for (String port : List.of("a0", "b0", "a1", "b1")) {
      SoftVerbs.link("up", port);
      SoftVerbs.link("clear", port);
    }
  }

  /** Runs a test between ports a0 and b0. */
  interface Pairwise {
    void run(DeviceEnd a, DeviceEnd b, Address there) throws Exception;
  }

  private static void between(Pairwise test) throws Exception {
    between(DeviceEnd.READ_AND_WRITE, test);
  }

  static void between(int accessOfB, Pairwise test) throws Exception {
    try (DeviceEnd a = new DeviceEnd("a0", DeviceEnd.READ_AND_WRITE);
        DeviceEnd b = new DeviceEnd("b0", accessOfB)) {
      a.connect("b0", b.address().number());
      b.connect("a0", a.address().number());
      test.run(a, b, b.address());
    }
  }

  static List<Integer> statuses(List<Done> all) {
    return all.stream().map(Done::status).toList();
  }

  static void fill(MemorySegment memory) {
    byte[] bytes = new byte[(int) memory.byteSize()];
    new Random(1).nextBytes(bytes);
    memory.copyFrom(MemorySegment.ofArray(bytes));
  }

  @Test
  void requestsOfAQueuePairTakeEffectInOrder() throws Exception {
    between(
        (a, b, there) -> {
          fill(a.memory);
          for (int i = 0; i < 32; i++) {
            b.receive(i, DeviceEnd.BYTES - 64, 64);
          }
          long slot = 20_001;
          for (int i = 0; i < 16; i++) {
            a.write(2L * i, (long) i * slot, slot, there.memory() + (long) i * slot, there.key());
            a.announce(2 * i + 1, 0, 0, there.memory(), there.key(), i);
          }
          List<Done> received = b.await(16);
          for (int i = 0; i < 16; i++) {
            assertThat(received.get(i)).isEqualTo(new Done(i, 0, IBV_WC_RECV_RDMA_WITH_IMM, i));
            assertThat(b.memory.asSlice(0, (i + 1) * slot))
                .matches(part -> part.mismatch(a.memory.asSlice(0, part.byteSize())) == -1);
          }
          assertThat(a.await(32).stream().map(Done::id))
              .containsExactlyElementsOf(LongStream.range(0, 32).boxed().toList());
        });
  }

  @Test
  void aWrongKeyIsRefusedAndBothEndsReturnWhatTheyHold() throws Exception {
    between(
        (a, b, there) -> {
          b.receive(7, 0, 64);
          a.write(1, 0, 100, there.memory(), there.key() + 1);
          a.write(2, 0, 100, there.memory(), there.key());
          assertThat(statuses(a.await(2))).containsExactly(REMOTE_ACCESS, IBV_WC_WR_FLUSH_ERR);
          assertThat(statuses(b.await(1))).containsExactly(IBV_WC_WR_FLUSH_ERR);
          assertThat(b.memory.asSlice(0, 100).toArray(ValueLayout.JAVA_BYTE)).containsOnly(0);
        });
  }

  @Test
  void noByteOfAWriteThatEndsOutsideTheMemoryIsStored() throws Exception {
    between(
        (a, b, there) -> {
          fill(a.memory);
          long to = DeviceEnd.BYTES - 10_000;
          a.write(1, 0, 10_001, there.memory() + to, there.key());
          assertThat(statuses(a.await(1))).containsExactly(REMOTE_ACCESS);
          assertThat(b.memory.asSlice(to, 10_000).toArray(ValueLayout.JAVA_BYTE)).containsOnly(0);
        });
  }

  @Test
  void memoryWithoutRemoteAccessIsNotWritten() throws Exception {
    between(
        IBV_ACCESS_LOCAL_WRITE,
        (a, b, there) -> {
          a.write(1, 0, 8, there.memory(), there.key());
          assertThat(statuses(a.await(1))).containsExactly(REMOTE_ACCESS);
        });
  }

  @Test
  void bytesOutsideTheMemoryOfTheSenderAreNotRead() throws Exception {
    between(
        (a, b, there) -> {
          a.write(1, 0, 8, there.memory(), there.key());
          a.write(2, DeviceEnd.BYTES - 4, 8, there.memory(), there.key());
          assertThat(statuses(a.await(2))).containsExactly(IBV_WC_SUCCESS, LOCAL_PROTECTION);
        });
  }

  @Test
  void aMessageLongerThanItsReceiveIsRefused() throws Exception {
    between(
        (a, b, there) -> {
          b.receive(1, 0, 16);
          a.message(2, 0, 17);
          assertThat(statuses(a.await(1))).containsExactly(REMOTE_INVALID);
        });
  }

  @Test
  void aReceiverThatIsNotReadyIsAskedAgainAndThenGivenUp() throws Exception {
    between(
        (a, b, there) -> {
          a.message(1, 0, 16);
          assertThat(statuses(a.await(1))).containsExactly(IBV_WC_RNR_RETRY_EXC_ERR);
        });
  }

  /** Pulling a cable starts a process, so the retries last four seconds. */
  @Test
  void retriesOutlastAShortInterruption() throws Exception {
    try (DeviceEnd a = new DeviceEnd("a0", DeviceEnd.READ_AND_WRITE);
        DeviceEnd b = new DeviceEnd("b0", DeviceEnd.READ_AND_WRITE)) {
      Address there = b.address();
      a.connect("b0", there.number(), HALF_A_SECOND, 6);
      b.connect("a0", a.address().number());
      SoftVerbs.link("down", "b0");
      a.write(1, 0, 50_000, there.memory(), there.key());
      SoftVerbs.link("up", "b0");

      assertThat(statuses(a.await(1))).containsExactly(IBV_WC_SUCCESS);
    }
  }

  @Test
  void aPulledCableExceedsTheRetries() throws Exception {
    between(
        (a, b, there) -> {
          SoftVerbs.link("down", "a0");
          a.write(2, 0, 8, there.memory(), there.key());
          a.write(3, 0, 8, there.memory(), there.key());
          assertThat(statuses(a.await(2)))
              .containsExactly(IBV_WC_RETRY_EXC_ERR, IBV_WC_WR_FLUSH_ERR);
        });
  }

  @Test
  void aBrokenQueuePairReturnsItsRequestsAndAcknowledgesNothing() throws Exception {
    between(
        (a, b, there) ->
            between(
                (otherA, otherB, otherThere) -> {
                  b.receive(5, 0, 64);
                  SoftVerbs.link("pair", "2", "b0");
                  assertThat(b.await(1))
                      .extracting(Done::id, Done::status)
                      .containsExactly(tuple(5L, IBV_WC_WR_FLUSH_ERR));
                  a.write(6, 0, 8, there.memory(), there.key());
                  a.write(7, 0, 8, there.memory(), there.key());
                  assertThat(statuses(a.await(2)))
                      .containsExactly(IBV_WC_RETRY_EXC_ERR, IBV_WC_WR_FLUSH_ERR);
                  b.receive(8, 0, 64);
                  assertThat(statuses(b.await(1))).containsExactly(IBV_WC_WR_FLUSH_ERR);
                  // Others of the port work.
                  otherA.write(9, 0, 8, otherThere.memory(), otherThere.key());
                  assertThat(statuses(otherA.await(1))).containsExactly(IBV_WC_SUCCESS);
                }));
  }

  @Test
  void lostPacketsAreSentAgain() throws Exception {
    between(
        (a, b, there) -> {
          fill(a.memory);
          SoftVerbs.link("loss", "2", "b0");
          for (int i = 0; i < 4; i++) {
            long at = i * (DeviceEnd.BYTES / 4);
            a.write(i, at, DeviceEnd.BYTES / 4, there.memory() + at, there.key());
          }
          assertThat(statuses(a.await(4))).containsOnly(IBV_WC_SUCCESS);
          assertThat(b.memory.mismatch(a.memory)).isEqualTo(-1);
        });
  }

  @Test
  void aDelayedCableDelaysEachWrite() throws Exception {
    between(
        (a, b, there) -> {
          SoftVerbs.link("delay", "3000", "b0");
          long start = System.nanoTime();
          a.write(1, 0, 8, there.memory(), there.key());
          a.await(1);
          assertThat(System.nanoTime() - start).isGreaterThanOrEqualTo(3_000_000);
        });
  }

  @Test
  void portsOfOtherRailsAreNotReached() {
    try (DeviceEnd a = new DeviceEnd("a0", DeviceEnd.READ_AND_WRITE);
        DeviceEnd b = new DeviceEnd("b1", DeviceEnd.READ_AND_WRITE)) {
      assertThatThrownBy(() -> a.receiveFrom("b1", b.address().number()))
          .isInstanceOf(WireException.class)
          .hasMessageContaining("ETIMEDOUT");
    }
  }

  @Test
  void aQueuePairThatIsNotConnectedTakesNoRequests() {
    try (DeviceEnd a = new DeviceEnd("a0", DeviceEnd.READ_AND_WRITE)) {
      assertThatThrownBy(() -> a.write(1, 0, 8, a.address().memory(), a.address().key()))
          .hasMessageContaining("ops.post_send returned 22");
    }
  }

  @Test
  void aDomainWithMemoryIsNotDeallocated() {
    long context = Verbs.open(SoftVerbs.PREFIX + "a0");
    long domain = Verbs.allocateDomain(context);
    try (Arena arena = Arena.ofConfined()) {
      long memory = Verbs.register(domain, arena.allocate(64, 8).address(), 64, 0);
      assertThatThrownBy(() -> Verbs.deallocateDomain(domain)).hasMessageContaining("errno 16");
      Verbs.deregister(memory);
    } finally {
      Verbs.deallocateDomain(domain);
      Verbs.closeDevice(context);
    }
  }

  @Test
  void aProcessThatDiesStopsAcknowledging() throws Exception {
    try (DeviceEnd a = new DeviceEnd("a0", DeviceEnd.READ_AND_WRITE);
        RankProcesses processes =
            new ProcessWorld()
                .start(1, DeviceJob.class, List.of(String.valueOf(a.address().number())))) {
      processes.awaitOutput(0, DeviceJob.READY, LIMIT);
      String output = processes.output(0);
      int from = output.indexOf(DeviceJob.READY) + DeviceJob.READY.length();
      Address there = Address.of(output.substring(from).lines().findFirst().orElseThrow());
      a.connect("b0", there.number());
      for (int i = 0; i < 10; i++) {
        a.write(i, 0, DeviceEnd.BYTES, there.memory(), there.key());
        assertThat(statuses(a.await(1))).containsExactly(IBV_WC_SUCCESS);
      }
      processes.kill(0);
      a.write(11, 0, 8, there.memory(), there.key());
      assertThat(statuses(a.await(1))).containsExactly(IBV_WC_RETRY_EXC_ERR);
    }
  }

  /** A process that preloads the device resolves paths by it. */
  @Test
  @SuppressWarnings("restricted") // calls a native function of the device
  void pathsOfDevicesBelowSysLeadToTheFabric() throws Throwable {
    MethodHandle resolve =
        Linker.nativeLinker()
            .downcallHandle(
                SymbolLookup.libraryLookup(System.getenv("EP4J_IB_LIBRARY"), Arena.global())
                    .findOrThrow("realpath"),
                FunctionDescriptor.of(
                    ValueLayout.ADDRESS, ValueLayout.ADDRESS, ValueLayout.ADDRESS));
    String devices = "/class/infiniband/" + SoftVerbs.PREFIX + "a0/";
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment resolved = arena.allocate(4096); // PATH_MAX
      MemorySegment path = arena.allocateFrom("/sys" + devices + "ports/../device");
      assertThat(((MemorySegment) resolve.invokeExact(path, resolved)).address())
          .isEqualTo(resolved.address());
      assertThat(resolved.getString(0))
          .isEqualTo(
              Path.of(System.getenv("SYSFS_PATH") + devices + "device").toRealPath().toString());
      MemorySegment other = arena.allocateFrom("/sys/class/../class");
      resolve.invoke(other, resolved);
      assertThat(resolved.getString(0)).isEqualTo("/sys/class");
    }
  }

  /** 1 GB/s on a clock of the test, packets of 4160 bytes as soon as the cable takes them. */
  @Test
  @SuppressWarnings("restricted") // calls a native function of the device
  void aCableCarriesItsRateAndNoMore() throws Throwable {
    SymbolLookup library =
        SymbolLookup.libraryLookup(System.getenv("EP4J_IB_LIBRARY"), Arena.global());
    ValueLayout.OfLong number = ValueLayout.JAVA_LONG;
    MethodHandle take =
        Linker.nativeLinker()
            .downcallHandle(
                library.findOrThrow("soft_verbs_take"),
                FunctionDescriptor.of(number, ValueLayout.ADDRESS, number, number, number));
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment bucket = arena.allocate(ValueLayout.JAVA_LONG);
      long packet = 4160;
      long passed = 0;
      long last = 0;
      for (long now = 1; now <= 10_000_000; now += 500) {
        long until = (long) take.invokeExact(bucket, now, packet, 1_000_000_000L);
        if (until != 0) {
          assertThat(until).isGreaterThanOrEqualTo(last + packet);
          last = until;
          passed += packet;
        }
      }
      // In 10 ms, and at most a burst of 0.1 ms and one packet more.
      assertThat(passed).isBetween(9_990_000L, 10_000_000L + 100_000 + packet);
    }
  }
}
