package org.ep4j.group.protocol;

import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.BindException;
import java.net.ConnectException;
import java.net.InetSocketAddress;
import java.net.SocketTimeoutException;
import java.net.StandardSocketOptions;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.util.HexFormat;
import java.util.Objects;
import org.ep4j.group.JobKey;
import org.ep4j.group.JoinRefusedException;
import org.jspecify.annotations.Nullable;

/**
 * The client end of a connection during authentication: its calls block, with deadlines. Reads
 * exactly one frame at a time, so a reactor can take over the channel between two frames.
 *
 * <p>The channel waits in a selector. An interrupt therefore ends a wait without closing the
 * channel, and closing the channel ends the connection at once. A channel outside a selector would
 * live on in a process that this JVM starts at that moment, until that process has closed its
 * inherited descriptors; the peer would take the client for a live one meanwhile.
 */
public final class BlockingFrameChannel implements AutoCloseable {
  private final SocketChannel channel;
  private final InetSocketAddress address;
  private @Nullable Selector selector;
  private boolean released;

  private BlockingFrameChannel(SocketChannel channel, InetSocketAddress address) {
    this.channel = channel;
    this.address = address;
  }

  /**
   * Connects; both sides prove that they know the secret.
   *
   * @throws IOException if no process listens, or the peer closes the connection or does not
   *     answer, or if this process cannot open a connection ({@link #failedHere}): a retry may help
   * @throws JoinRefusedException if a retry does not help
   */
  public static BlockingFrameChannel open(
      InetSocketAddress address, JobKey secretKey, Frames.Purpose purpose, Deadline deadline)
      throws IOException {
    if (address.isUnresolved()) {
      throw new UnknownHostException(
          "unknown host " + address.getHostString() + ": correct the host name");
    }
    SocketChannel opened = LocalFailureException.opened(SocketChannel::open);
    BlockingFrameChannel channel = new BlockingFrameChannel(opened, address);
    boolean done = false;
    try {
      channel.connect(deadline);
      channel.introduce(secretKey, purpose, deadline);
      done = true;
      return channel;
    } finally {
      if (!done) {
        channel.close();
      }
    }
  }

  /** Whether this process is why a connection failed, not the peer or the network. */
  public static boolean failedHere(IOException failure) {
    return failure instanceof LocalFailureException;
  }

  private void connect(Deadline deadline) throws IOException {
    try {
      channel.socket().connect(address, deadline.remainingMillis());
    } catch (BindException e) {
      // No local port is free, or this host forbids the connection.
      throw new LocalFailureException(e);
    }
    channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
    if (local().equals(channel.getRemoteAddress())) {
      // If no process listens on a port of the ephemeral range, TCP can connect a socket to itself.
      throw new ConnectException("Connection refused");
    }
    channel.configureBlocking(false);
    Selector opened = LocalFailureException.opened(Selector::open);
    selector = opened;
    channel.register(opened, SelectionKey.OP_READ);
  }

  private void introduce(JobKey secretKey, Frames.Purpose purpose, Deadline deadline)
      throws IOException {
    byte[] clientNonce = Challenge.nonce();
    send(Frames.hello(purpose, clientNonce));
    byte[] hostNonce = expect(Frames.CHALLENGE, Challenge.NONCE_BYTES, deadline);
    send(
        Frames.bytes(
            Frames.PROOF,
            Challenge.proof(secretKey, purpose, Challenge.Role.GUEST, clientNonce, hostNonce)));
    byte[] proof = expect(Frames.PROVEN, Challenge.PROOF_BYTES, deadline);
    byte[] expected =
        Challenge.proof(secretKey, purpose, Challenge.Role.HOST, clientNonce, hostNonce);
    if (!Challenge.same(proof, expected)) {
      throw new JoinRefusedException(
          JoinRefusedException.Reason.UNAUTHENTICATED,
          "the listener at %s does not know the secret of this job: choose a port that no other job or"
                  .formatted(text())
              + " program uses",
          null);
    }
  }

  private byte[] expect(byte type, int bytes, Deadline deadline) throws IOException {
    Frames.Frame frame = receive(Frames.MAX_BEFORE_PROOF, deadline);
    if (frame.type() != type || frame.body().remaining() != bytes) {
      throw wrongProtocol("a frame of type " + frame.type(), null);
    }
    return Frames.rest(frame.body());
  }

  /** Sends a frame; frames are short enough to be written without a long block. */
  public void send(ByteBuffer frame) throws IOException {
    while (frame.hasRemaining()) {
      channel.write(frame);
    }
  }

  /**
   * Reads the next frame.
   *
   * @throws JoinRefusedException if the frame is a refusal, or the bytes are not a frame
   * @throws SocketTimeoutException if no frame arrives before the deadline
   * @throws InterruptedIOException if the thread is interrupted; the interrupt flag stays set
   */
  public Frames.Frame receive(int max, Deadline deadline) throws IOException {
    byte[] header = read(4, deadline);
    int length = ByteBuffer.wrap(header).getInt();
    if (length < 1 || length > max) {
      throw wrongProtocol("bytes " + HexFormat.ofDelimiter(" ").formatHex(header), null);
    }
    ByteBuffer body = ByteBuffer.wrap(read(length, deadline));
    byte type = body.get();
    if (type == Frames.REFUSED) {
      JoinRefusedException.Reason reason = Frames.reason(body);
      throw new JoinRefusedException(
          reason, "refused by " + text() + ": " + Frames.text(body), null);
    }
    return new Frames.Frame(type, body);
  }

  public JoinRefusedException wrongProtocol(String what, @Nullable Throwable cause) {
    return new JoinRefusedException(
        JoinRefusedException.Reason.WRONG_PROTOCOL,
        "the listener at %s is not an ep4j rendezvous (it answered with %s): choose another port"
            .formatted(text(), what),
        cause);
  }

  private byte[] read(int bytes, Deadline deadline) throws IOException {
    ByteBuffer buffer = ByteBuffer.allocate(bytes);
    while (buffer.hasRemaining()) {
      int read = channel.read(buffer);
      if (read < 0) {
        throw new EOFException(text() + " closed the connection");
      }
      if (read == 0) {
        awaitInput(deadline);
      }
    }
    return buffer.array();
  }

  private void awaitInput(Deadline deadline) throws IOException {
    if (deadline.expired()) {
      throw new SocketTimeoutException(text() + " does not answer");
    }
    if (Thread.currentThread().isInterrupted()) {
      throw new InterruptedIOException("interrupted while waiting for " + text());
    }
    Selector waiting = Objects.requireNonNull(selector, "connected");
    waiting.select(deadline.remainingMillis());
    waiting.selectedKeys().clear();
  }

  public InetSocketAddress local() throws IOException {
    return (InetSocketAddress) channel.getLocalAddress();
  }

  public String text() {
    return address.getHostString() + ":" + address.getPort();
  }

  public SocketChannel channel() {
    return channel;
  }

  /** The channel has a new owner: {@link #close} does not close it afterwards. */
  public void release() {
    released = true;
  }

  @Override
  public void close() {
    if (!released) {
      close(channel);
    }
    // After the channel: a channel that is still registered ends its connection at once.
    if (selector != null) {
      close(selector);
    }
  }

  private static void close(Closeable resource) {
    try {
      resource.close();
    } catch (IOException e) {
      // The descriptor is released in any case.
    }
  }
}
