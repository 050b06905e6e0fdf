package org.ep4j.group.protocol;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * A connection that carries frames, served by a reactor. The reactor thread calls its methods.
 *
 * <p>States: open, then drained or closed. Draining writes the queued frames and gives the peer
 * time to read them, so that a TCP reset does not destroy a last message.
 */
public final class FrameConnection implements Reactor.Handler {
  private static final int SMALL_BUFFER = 2048;
  private static final int READS_PER_ROUND = 16;
  private static final int MAX_BATCHED = 64;
  private static final long MAX_QUEUED = 1L << 30;
  private static final long DRAIN_NANOS = TimeUnit.SECONDS.toNanos(1);
  private static final int MAX_DRAINED = 1 << 20;

  /** The owner of the connection. */
  public interface Listener {
    /** A frame has arrived; the body is valid during the call only. */
    void frame(FrameConnection connection, byte type, ByteBuffer body);

    /** The peer has closed the connection, or the connection was cut off; it is closed. */
    void closed(FrameConnection connection, String why);

    /** The peer was silent for longer than the liveness timeout. */
    default void silent(FrameConnection connection, Duration silence) {
      connection.lose("silent for " + Deadline.text(silence));
    }

    /** The input is not a frame; {@code start} is its beginning. */
    default void malformed(FrameConnection connection, byte[] start) {
      connection.lose("it sent bytes that are not a frame");
    }
  }

  private enum State {
    OPEN,
    DRAINING,
    CLOSED
  }

  private final Reactor reactor;
  private final SocketChannel channel;
  private final SelectionKey key;
  private final InetSocketAddress remote;
  private final InetSocketAddress local;
  private final ArrayDeque<ByteBuffer> out = new ArrayDeque<>();
  private Listener listener;
  private final @Nullable ByteBuffer[] batch = new @Nullable ByteBuffer[MAX_BATCHED];
  private ByteBuffer in = ByteBuffer.allocate(SMALL_BUFFER);
  private State state = State.OPEN;
  private int maxFrame = Frames.MAX_BEFORE_PROOF;
  private long queued;
  private long receivedAt = System.nanoTime();
  private long livenessNanos;
  private @Nullable Deadline deadline;
  private int drained;
  private boolean failing;
  private boolean flushSoon;

  /** Takes ownership of a connected channel. */
  public FrameConnection(Reactor reactor, SocketChannel channel, Listener listener)
      throws IOException {
    this.reactor = reactor;
    this.channel = channel;
    this.listener = listener;
    this.remote = (InetSocketAddress) channel.getRemoteAddress();
    this.local = (InetSocketAddress) channel.getLocalAddress();
    channel.configureBlocking(false);
    channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
    this.key = reactor.register(channel, SelectionKey.OP_READ, this);
  }

  public InetSocketAddress remote() {
    return remote;
  }

  public InetSocketAddress local() {
    return local;
  }

  public void listener(Listener listener) {
    this.listener = listener;
  }

  /** The peer is authenticated: it may send long frames, and its authentication deadline ends. */
  public void trust() {
    maxFrame = Frames.MAX;
    deadline = null;
  }

  /** Closes the connection if it is still unauthenticated at the deadline. */
  void trustBefore(Deadline deadline) {
    this.deadline = deadline;
  }

  /** Sets the maximum silence of the peer. */
  public void livenessTimeout(Duration liveness) {
    livenessNanos = liveness.toNanos();
    receivedAt = System.nanoTime();
  }

  /**
   * Queues a frame and writes what the socket accepts. Never calls the listener, so a caller that
   * sends one frame over many connections is not re-entered.
   */
  public void send(ByteBuffer frame) {
    if (state == State.OPEN && !failing) {
      out.add(frame);
      queued += frame.remaining();
      flush();
      if (queued > MAX_QUEUED) {
        failLater("it does not read its input");
      }
    }
  }

  private void flushAtEndOfRound() {
    if (!flushSoon) {
      flushSoon = true;
      reactor.flushSoon(this);
    }
  }

  private void failLater(String why) {
    failing = true;
    out.clear();
    reactor.post(() -> lose(why));
  }

  @Override
  public void ready(SelectionKey key) {
    if (key.isReadable()) {
      read();
    }
    if (state != State.CLOSED && key.isWritable()) {
      flush();
    }
  }

  private void read() {
    try {
      for (int i = 0; i < READS_PER_ROUND && state != State.CLOSED; i++) {
        int n = channel.read(in);
        if (n < 0) {
          lose("the peer closed the connection");
          return;
        }
        if (n == 0) {
          return;
        }
        receivedAt = System.nanoTime();
        if (state == State.DRAINING) {
          drained += n;
          in.clear();
          if (drained > MAX_DRAINED) {
            close();
          }
        } else {
          parse();
        }
      }
    } catch (IOException e) {
      lose("the connection broke: " + e.getMessage());
    }
  }

  private void parse() {
    in.flip();
    while (state == State.OPEN && in.remaining() >= 4) {
      int length = in.getInt(in.position());
      if (length < 1 || length > maxFrame) {
        byte[] start = new byte[Math.min(8, in.remaining())];
        in.get(in.position(), start);
        listener.malformed(this, start);
        break;
      }
      if (in.remaining() < 4 + length) {
        break;
      }
      ByteBuffer body = in.slice(in.position() + 5, length - 1);
      byte type = in.get(in.position() + 4);
      in.position(in.position() + 4 + length);
      try {
        listener.frame(this, type, body);
      } catch (BufferUnderflowException e) {
        lose("it sent a frame of type " + type + " that is too short");
      }
    }
    makeSpace();
  }

  /** Keeps input that is not parsed yet, in a buffer large enough for its frame. */
  private void makeSpace() {
    int length = in.remaining() >= 4 ? in.getInt(in.position()) : 0;
    int needed = Math.max(SMALL_BUFFER, length > maxFrame || length < 0 ? 0 : 4 + length);
    if (in.capacity() == needed || (in.capacity() > needed && in.hasRemaining())) {
      in.compact();
    } else {
      in = ByteBuffer.allocate(Math.max(needed, in.remaining())).put(in);
    }
    if (state != State.OPEN) {
      in.clear();
    }
  }

  /** Writes as much of the queue as the socket accepts. */
  void flush() {
    flushSoon = false;
    if (state == State.CLOSED || failing) {
      return;
    }
    try {
      while (!out.isEmpty()) {
        int n = 0;
        for (ByteBuffer frame : out) {
          batch[n++] = frame;
          if (n == batch.length) {
            break;
          }
        }
        queued -= channel.write(batch, 0, n);
        while (!out.isEmpty() && !out.element().hasRemaining()) {
          out.remove();
          n--;
        }
        if (n > 0) {
          key.interestOps(SelectionKey.OP_READ | SelectionKey.OP_WRITE);
          return;
        }
      }
      Arrays.fill(batch, null);
      if (state == State.DRAINING) {
        channel.shutdownOutput();
      }
      key.interestOps(SelectionKey.OP_READ);
    } catch (IOException e) {
      failLater("the connection broke: " + e.getMessage());
    }
  }

  @Override
  public void tick(long now) {
    if (deadline != null && deadline.expired()) {
      if (state == State.DRAINING) {
        close();
      } else {
        lose("it did not authenticate within " + deadline.text());
      }
    } else if (state == State.OPEN && livenessNanos > 0 && now - receivedAt > livenessNanos) {
      listener.silent(this, Duration.ofNanos(now - receivedAt));
    }
  }

  @Override
  public void forgive(long now) {
    receivedAt = now;
  }

  @Override
  public void broken(RuntimeException e) {
    lose("serving it failed: " + e);
  }

  /** Closes with a last message; the peer has time to read it. */
  public void closeAfter(ByteBuffer lastWord) {
    send(lastWord);
    if (state == State.OPEN && !failing) {
      state = State.DRAINING;
      deadline = Deadline.after(Duration.ofNanos(DRAIN_NANOS));
      flushAtEndOfRound();
    }
  }

  /**
   * Closes and notifies the listener, unless the listener was notified or closed the connection
   * itself.
   */
  public void lose(String why) {
    boolean notifyPeer = state == State.OPEN;
    close();
    if (notifyPeer) {
      listener.closed(this, why);
    }
  }

  boolean isClosed() {
    return state == State.CLOSED;
  }

  /** Closes without notifying the listener. */
  public void close() {
    state = State.CLOSED;
    out.clear();
    try {
      channel.close();
    } catch (IOException e) {
      // The descriptor is released in any case.
    }
  }
}
