package org.ep4j.wire.tcp;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.SocketChannel;
import org.ep4j.wire.tcp.pipe.Pipe;

/**
 * A pipe whose bytes a {@link Carrier} transfers, except short segments. Agreement between both
 * sides uses the pipe below; {@link SegmentLayout} defines the protocol.
 */
final class CarriedPipe implements Pipe {
  private static final int SOCKET_BUFFER = 64 << 10;

  /**
   * Time for which data of the carrier may still arrive after the peer has ended its side of the
   * socket.
   */
  private static final long LAST_SEGMENTS_NANOS = 1_000_000_000;

  private final Pipe socket;
  private final Carrier carrier;
  private final SegmentsOut out;
  private final SegmentsIn in;

  // Between calls the pending bytes of both are from position to limit.
  private final ByteBuffer coming;
  private final ByteBuffer going;
  private long queued;

  private boolean ended;
  private long endedAt;
  private boolean ending;

  CarriedPipe(Pipe socket, Carrier carrier) {
    this.socket = socket;
    this.carrier = carrier;
    out = new SegmentsOut(carrier);
    in = new SegmentsIn(carrier);
    coming = buffer();
    going = buffer();
  }

  private static ByteBuffer buffer() {
    return ByteBuffer.allocateDirect(SOCKET_BUFFER).order(ByteOrder.LITTLE_ENDIAN).limit(0);
  }

  @Override
  public int read(ByteBuffer target) throws IOException {
    int read = in.read(target);
    if (read == 0) {
      advance();
      read = in.read(target);
    }
    if (read > 0 || !ended) {
      return read;
    }
    boolean late = System.nanoTime() - endedAt > LAST_SEGMENTS_NANOS;
    return in.waits() && !late ? 0 : -1;
  }

  @Override
  public int write(ByteBuffer source) throws IOException {
    if (ending) {
      return 0;
    }
    int written = out.write(source);
    if (out.holdsWhole()) {
      advance();
    }
    return written;
  }

  /** Advances all transfers. */
  private void advance() throws IOException {
    hear();
    in.advance();
    going.compact();
    queued = in.reply(going, queued);
    queued = out.announce(going, queued);
    going.flip();
    if (going.hasRemaining()) {
      socket.write(going);
    }
    out.advance(queued - going.remaining());
  }

  private void hear() throws IOException {
    if (!ended) {
      coming.compact();
      int read = socket.read(coming);
      coming.flip();
      if (read < 0) {
        ended = true;
        endedAt = System.nanoTime();
      }
    }
    while (coming.remaining() >= SegmentLayout.HEADER) {
      int at = coming.position();
      byte type = SegmentLayout.type(coming, at);
      int value = SegmentLayout.value(coming, at);
      boolean inline = type == SegmentLayout.INLINE;
      if (inline && (value <= 0 || value > SegmentLayout.MAX_INLINE)) {
        throw new IOException("the peer has sent a short segment of " + value + " bytes");
      }
      if (inline && coming.remaining() < SegmentLayout.HEADER + value) {
        return;
      }
      coming.position(at + SegmentLayout.HEADER);
      take(type, value);
    }
  }

  private void take(byte type, int value) throws IOException {
    boolean sound =
        switch (type) {
          case SegmentLayout.OFFER, SegmentLayout.INLINE -> {
            in.announce(coming, value, type == SegmentLayout.INLINE);
            yield true;
          }
          case SegmentLayout.GRANT -> out.grant(value);
          case SegmentLayout.CREDIT -> out.credit(value);
          default -> false;
        };
    if (!sound) {
      throw new IOException("the peer has sent message %d with %d".formatted(type, value));
    }
  }

  @Override
  public boolean carried() {
    return true;
  }

  @Override
  public boolean holdsInput() {
    return true;
  }

  /** Always false: the pipe accepts more as long as it has room. */
  @Override
  public boolean holdsOutput() throws IOException {
    advance();
    return false;
  }

  @Override
  public long inFlight() {
    return out.inFlight();
  }

  /**
   * True only when the peer has read everything, because ending this side discards data in the
   * carrier. Also true when the peer has ended its side and reads no more.
   */
  @Override
  public boolean mayEnd() throws IOException {
    advance();
    return ended || (out.inFlight() == 0 && out.allRead());
  }

  @Override
  public void end() throws IOException {
    ending = true;
    socket.end();
  }

  @Override
  public SocketChannel channel() {
    return socket.channel();
  }

  @Override
  public void drop() throws IOException {
    carrier.close();
    socket.drop();
  }

  @Override
  public byte[] binding() throws IOException {
    return socket.binding();
  }
}
