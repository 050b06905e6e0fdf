package org.ep4j.rdma.ucx;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.Arena;
import java.util.BitSet;
import org.ep4j.group.Group;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.support.InFlightLimit;
import org.junit.jupiter.api.Test;

class MessageBuilderTest {
  private static final int LANES = 400;

  private final BitSet acknowledged = new BitSet();
  private int goodbyes;

  /** A message has space for some 300. */
  @Test
  void moreAcknowledgementsThanFitIntoAMessageContinueInTheNextOne() {
    withWorkOnAllLanes(
        (queue, builder) -> {
          read(queue, builder.make(0, true, 0));
          assertThat(acknowledged.cardinality()).isLessThan(LANES);
          assertThat(builder.acknowledgedAll()).isFalse();
          read(queue, builder.make(0, true, 0));
        });
    assertThat(acknowledged.cardinality()).isEqualTo(LANES);
  }

  @Test
  void theLastMessageFollowsAllAcknowledgements() {
    withWorkOnAllLanes(
        (queue, builder) -> {
          read(queue, builder.makeGoodbye(false));
          assertThat(goodbyes).isZero();
          read(queue, builder.makeGoodbye(false));
        });
    assertThat(acknowledged.cardinality()).isEqualTo(LANES);
    assertThat(goodbyes).isOne();
  }

  private interface Check {
    void run(UcxSendQueue queue, MessageBuilder builder);
  }

  /** Builds messages where a piece of work has arrived on each lane; nothing is sent. */
  @SuppressWarnings("NullAway") // A wire that opens no worker needs no context of UCX.
  private static void withWorkOnAllLanes(Check check) {
    WireConfig config = WireConfig.builder().lanes(LANES).operationsInFlight(1).build();
    try (Arena arena = Arena.ofConfined();
        Group group = Group.inProcess(2).getFirst()) {
      UcxWire wire = new UcxWire(group, config, null, new UcxProgressContext[0], arena);
      RequestParams params = new RequestParams(arena);
      UcxConnection connection =
          new UcxConnection(wire, 1, 0, 0, 0, params, new InFlightLimit(config), arena);
      for (UcxLane lane : connection.lanes()) {
        lane.applied = 1;
      }
      UcxSendQueue queue = new UcxSendQueue(arena, params);
      check.run(queue, new MessageBuilder(queue, connection.lanes(), 0, 0, 0));
    }
  }

  private void read(UcxSendQueue queue, int bytes) {
    assertThat(bytes).isLessThanOrEqualTo(MessageLayout.BYTES);
    for (int at = MessageLayout.HEADER; at < bytes; at += MessageLayout.FRAME) {
      long frame = queue.begin() + at;
      if (MessageLayout.type(queue.staging(), frame) == MessageLayout.GOODBYE) {
        goodbyes++;
      } else {
        acknowledged.set(MessageLayout.lane(queue.staging(), frame));
      }
    }
  }
}
