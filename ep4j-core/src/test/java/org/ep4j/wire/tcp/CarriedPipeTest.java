package org.ep4j.wire.tcp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.ep4j.wire.tcp.pipe.PlainPipe;
import org.ep4j.wire.tcp.pipe.SocketPair;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Messages and checks of a pipe with a carrier; the wire kit tests that bytes arrive. */
@Timeout(20)
class CarriedPipeTest {
  private static final int SLOTS = 3;
  private static final int SLOT_BYTES = 20_000;

  private SocketPair pair;
  private Idle carrier;
  private CarriedPipe pipe;

  /** Accepts everything unless it is busy; completes what a test sets. */
  private static final class Idle implements Carrier {
    private final Arena arena = Arena.ofShared();
    private final MemorySegment memory = arena.allocate(SLOT_BYTES);
    private int sends;
    private int receives;
    private long completed;
    private boolean busy;
    private boolean lost;
    private boolean closed;

    @Override
    public int slots() {
      return SLOTS;
    }

    @Override
    public MemorySegment outgoing(int slot) {
      return memory;
    }

    @Override
    public MemorySegment incoming(int slot) {
      return memory;
    }

    @Override
    public boolean send(int slot, int bytes) {
      sends++;
      return true;
    }

    @Override
    public boolean receive(int slot, int bytes) {
      receives++;
      return !busy;
    }

    @Override
    public long sent() throws IOException {
      if (lost) {
        throw new IOException("the port is down");
      }
      return completed;
    }

    @Override
    public long received() {
      return 0;
    }

    @Override
    public void close() {
      closed = true;
    }
  }

  @BeforeEach
  void open() throws IOException {
    pair = SocketPair.open();
    carrier = new Idle();
    pipe = new CarriedPipe(new PlainPipe(pair.here()), carrier);
  }

  @AfterEach
  void close() throws IOException {
    pair.close();
    carrier.arena.close();
  }

  private void say(int type, int value) throws IOException {
    ByteBuffer message = ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN);
    pair.there().write(message.putInt(type).putInt(value).flip());
  }

  private int[] hear() throws IOException {
    ByteBuffer message = ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN);
    while (message.hasRemaining()) {
      assertThat(pair.there().read(message)).isNotNegative();
    }
    return new int[] {message.getInt(0), message.getInt(4)};
  }

  /** Reads until an exception, at most one second. */
  private void read() throws IOException {
    long end = System.nanoTime() + 1_000_000_000;
    while (System.nanoTime() - end < 0) {
      assertThat(pipe.read(ByteBuffer.allocate(100))).isZero();
    }
  }

  @Test
  void nothingIsSentBeforeTheReceiverHasBegun() throws IOException {
    assertThat(pipe.write(ByteBuffer.allocate(SLOT_BYTES))).isEqualTo(SLOT_BYTES);
    assertThat(hear()).containsExactly(SegmentLayout.OFFER, SLOT_BYTES);
    assertThat(pipe.holdsOutput()).isFalse();
    assertThat(carrier.sends).isZero();
    say(SegmentLayout.GRANT, 1);
    while (carrier.sends == 0) {
      assertThat(pipe.holdsOutput()).isFalse();
    }
    assertThat(pipe.inFlight()).isEqualTo(SLOT_BYTES);
    assertThat(pipe.mayEnd()).isFalse();
  }

  /** The last segment of an operation, which its receiver waits for. */
  @Test
  void aLossOfASegmentThatHasLeftIsNoticedUntilTheReceiverHasReadIt() throws IOException {
    pipe.write(ByteBuffer.allocate(SLOT_BYTES));
    assertThat(pipe.holdsOutput()).isFalse();
    say(SegmentLayout.GRANT, 1);
    carrier.completed = 1;
    while (pipe.inFlight() > 0) {
      assertThat(pipe.holdsOutput()).isFalse();
    }
    carrier.lost = true;
    assertThatThrownBy(() -> pipe.holdsOutput())
        .isInstanceOf(IOException.class)
        .hasMessageContaining("the port is down");
    carrier.lost = false;
    say(SegmentLayout.CREDIT, 1);
    while (!pipe.mayEnd()) {
      Thread.onSpinWait();
    }
    carrier.lost = true;
    assertThat(pipe.holdsOutput()).isFalse();
  }

  @Test
  void aSlowReceiverIsOfferedNoMoreThanItHasSlotsFor() throws IOException {
    ByteBuffer much = ByteBuffer.allocate(5 * SLOT_BYTES);
    assertThat(pipe.write(much)).isEqualTo(SLOTS * SLOT_BYTES);
    assertThat(pipe.write(much)).isZero();
  }

  @Test
  void aReceiveIsBegunBeforeItIsGranted() throws IOException {
    carrier.busy = true;
    say(SegmentLayout.OFFER, 10_000);
    while (carrier.receives < 3) {
      assertThat(pipe.read(ByteBuffer.allocate(100))).isZero();
    }
    assertThat(pair.there().read(ByteBuffer.allocate(8))).as("granted too early").isZero();
    carrier.busy = false;
    assertThat(pipe.read(ByteBuffer.allocate(100))).isZero();
    assertThat(hear()).containsExactly(SegmentLayout.GRANT, 1);
  }

  @Test
  void moreSegmentsThanSlotsAreRefused() throws IOException {
    for (int i = 0; i <= SLOTS; i++) {
      say(SegmentLayout.OFFER, 9000);
    }
    assertThatThrownBy(this::read)
        .isInstanceOf(IOException.class)
        .hasMessageContaining("a segment of 9000 bytes, for which there is no room");
  }

  @Test
  void aSegmentLongerThanASlotIsRefused() throws IOException {
    say(SegmentLayout.OFFER, SLOT_BYTES + 1);
    assertThatThrownBy(this::read)
        .isInstanceOf(IOException.class)
        .hasMessageContaining("a segment of " + (SLOT_BYTES + 1));
  }

  @Test
  void aSegmentOfNegativeLengthIsRefused() throws IOException {
    say(SegmentLayout.INLINE, -8);
    assertThatThrownBy(this::read)
        .isInstanceOf(IOException.class)
        .hasMessageContaining("short segment of -8 bytes");
  }

  @Test
  void whatWasNotOfferedCannotBeGranted() throws IOException {
    say(SegmentLayout.GRANT, 1);
    assertThatThrownBy(this::read)
        .isInstanceOf(IOException.class)
        .hasMessageContaining("message 3 with 1");
  }

  @Test
  void whatWasNotSentCannotBeRead() throws IOException {
    say(SegmentLayout.CREDIT, 1);
    assertThatThrownBy(this::read)
        .isInstanceOf(IOException.class)
        .hasMessageContaining("message 4 with 1");
  }

  @Test
  void anEndBehindAnOfferIsTheEndOnceItsBytesAreLate() throws IOException {
    say(SegmentLayout.OFFER, 10_000);
    pair.there().close();
    int read = 0;
    long start = System.nanoTime();
    while (read == 0) {
      read = pipe.read(ByteBuffer.allocate(100));
    }
    assertThat(read).isEqualTo(-1);
    assertThat(System.nanoTime() - start).isGreaterThan(500_000_000);
    pipe.drop();
    assertThat(carrier.closed).isTrue();
  }
}
