package org.ep4j.rdma.softverbs;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.rdma.softverbs.SoftVerbsTest.*;
import static org.ep4j.rdma.verbs.bindings.VerbsConstants.*;

import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import org.ep4j.rdma.softverbs.DeviceEnd.Done;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;

/** Queue pairs that take their receives from the same queue. */
@EnabledIf(
    value = "org.ep4j.rdma.softverbs.SoftVerbs#isBuilt",
    disabledReason = "only the Surefire execution soft-verbs has emulated devices, built by g++")
class SharedReceivesTest {
  private static final int EBUSY = 16;
  private static final int ENOMEM = 12;
  private static final int PLACES = 4;
  private static final int SLOT = 50_000;

  /** Two connections, whose ends b take the same receives, into the memory of another end. */
  private record Ends(
      DeviceEnd owner,
      SharedReceives shared,
      DeviceEnd a,
      DeviceEnd b,
      DeviceEnd otherA,
      DeviceEnd otherB) {
    void receive(int slot) {
      assertThat(shared.receive(slot, (long) slot * SLOT, SLOT)).isZero();
    }
  }

  private interface Sharing {
    void run(Ends ends) throws Exception;
  }

  private static void sharing(Sharing test) throws Throwable {
    try (DeviceEnd owner = new DeviceEnd("b0", DeviceEnd.READ_AND_WRITE)) {
      SharedReceives shared = new SharedReceives(owner, PLACES);
      try (DeviceEnd a = new DeviceEnd("a0", DeviceEnd.READ_AND_WRITE);
          DeviceEnd b = new DeviceEnd("b0", DeviceEnd.READ_AND_WRITE, shared.address());
          DeviceEnd otherA = new DeviceEnd("a0", DeviceEnd.READ_AND_WRITE);
          DeviceEnd otherB = new DeviceEnd("b0", DeviceEnd.READ_AND_WRITE, shared.address())) {
        connect(a, b);
        connect(otherA, otherB);
        test.run(new Ends(owner, shared, a, b, otherA, otherB));
        assertThat(shared.destroy()).isEqualTo(EBUSY);
      }
      assertThat(shared.destroy()).isZero();
    }
  }

  private static void connect(DeviceEnd a, DeviceEnd b) {
    a.connect("b0", b.address().number());
    b.connect("a0", a.address().number());
  }

  /** Messages of many packets, which arrive at the same time. */
  @Test
  void eachMessageHasAReceiveOfItsOwn() throws Throwable {
    sharing(
        ends -> {
          for (int slot = 0; slot < PLACES; slot++) {
            ends.receive(slot);
          }
          ends.a().memory.fill((byte) 1);
          ends.otherA().memory.fill((byte) 2);
          for (int i = 0; i < 2; i++) {
            ends.a().message(i, 0, SLOT);
            ends.otherA().message(i, 0, SLOT);
          }
          List<Long> taken = new ArrayList<>();
          for (DeviceEnd end : List.of(ends.b(), ends.otherB())) {
            for (Done done : end.await(2)) {
              assertThat(done.status()).isEqualTo(IBV_WC_SUCCESS);
              taken.add(done.id());
              assertThat(
                      ends.owner()
                          .memory
                          .asSlice(done.id() * SLOT, SLOT)
                          .toArray(ValueLayout.JAVA_BYTE))
                  .containsOnly(end == ends.b() ? 1 : 2);
            }
          }
          assertThat(taken).containsExactlyInAnyOrder(0L, 1L, 2L, 3L);
        });
  }

  @Test
  void receivesAreTakenInTheirOrderAndMakeRoom() throws Throwable {
    sharing(
        ends -> {
          for (int round = 0; round < 3; round++) {
            for (int slot = 0; slot < PLACES; slot++) {
              ends.receive(slot);
            }
            assertThat(ends.shared().receive(PLACES, 0, SLOT)).isEqualTo(ENOMEM);
            for (int slot = 0; slot < PLACES; slot++) {
              DeviceEnd from = slot % 2 == 0 ? ends.a() : ends.otherA();
              DeviceEnd to = slot % 2 == 0 ? ends.b() : ends.otherB();
              from.message(slot, 0, 64);
              assertThat(to.await(1).getFirst().id()).isEqualTo(slot);
              from.await(1);
            }
          }
        });
  }

  @Test
  void aQueuePairThatStopsLeavesThemToTheOthers() throws Throwable {
    sharing(
        ends -> {
          ends.receive(0);
          DeviceEnd.Address there = ends.b().address();
          ends.a().write(1, 0, 8, there.memory(), there.key() + 1);
          assertThat(statuses(ends.a().await(1))).containsExactly(REMOTE_ACCESS);
          ends.otherA().message(2, 0, 64);
          assertThat(statuses(ends.otherB().await(1))).containsExactly(IBV_WC_SUCCESS);
          assertThat(ends.b().poll()).isEmpty();
        });
  }

  @Test
  void withoutReceivesTheirQueuePairsAreNotReady() throws Throwable {
    sharing(
        ends -> {
          assertThatThrownBy(() -> ends.b().receive(1, 0, 64))
              .hasMessageContaining("ops.post_recv returned 22");
          ends.a().message(1, 0, 16);
          assertThat(statuses(ends.a().await(1))).containsExactly(IBV_WC_RNR_RETRY_EXC_ERR);
        });
  }
}
