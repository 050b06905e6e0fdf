package org.ep4j.group.protocol;

import java.io.IOException;
import java.lang.System.Logger;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.function.Consumer;
import org.ep4j.group.JobKey;
import org.ep4j.group.JoinRefusedException;

/**
 * A listening port that admits connections whose client proves that it knows the secret.
 *
 * <p>Unauthenticated connections are limited in number, time and bytes: when the limit is reached,
 * the oldest refused one is closed, or the oldest one if none is refused. Authenticated connections
 * are never closed for that reason. A client without the secret learns only that this is an ep4j
 * port.
 */
public final class Acceptor implements Reactor.Handler {
  static final Duration AUTHENTICATION_TIMEOUT = Duration.ofSeconds(5);

  private static final Logger LOG = System.getLogger("org.ep4j.group");

  /** Unauthenticated connections beside those of the ranks, which may all connect at once. */
  private static final int MORE_UNAUTHENTICATED = 256;

  private static final byte[] NOT_HTTP =
      """
      HTTP/1.0 400 Bad Request\r
      Content-Type: text/plain\r
      Connection: close\r
      \r
      This is a port of an ep4j job, not a web server.
      """
          .getBytes(StandardCharsets.US_ASCII);

  private final Reactor reactor;
  private final ServerSocketChannel channel;
  private final SelectionKey key;
  private final JobKey secretKey;
  private final Frames.Purpose purpose;
  private final Consumer<FrameConnection> admit;
  private final int maxUnauthenticated;
  private final LinkedHashSet<FrameConnection> unauthenticated = new LinkedHashSet<>();

  /** Connections whose client still has a moment to read why it was refused. */
  private final LinkedHashSet<FrameConnection> refused = new LinkedHashSet<>();

  /**
   * Starts listening.
   *
   * @param address where to listen; port 0 for any free port
   * @param ranks number of ranks of the job
   * @param admit receives each authenticated connection, and sets its listener
   */
  public Acceptor(
      Reactor reactor,
      InetSocketAddress address,
      int ranks,
      JobKey secretKey,
      Frames.Purpose purpose,
      Consumer<FrameConnection> admit)
      throws IOException {
    this.reactor = reactor;
    this.secretKey = secretKey;
    this.purpose = purpose;
    this.admit = admit;
    this.maxUnauthenticated = ranks + MORE_UNAUTHENTICATED;
    channel = LocalFailureException.opened(ServerSocketChannel::open);
    boolean done = false;
    try {
      channel.bind(address, maxUnauthenticated);
      channel.configureBlocking(false);
      key = reactor.register(channel, SelectionKey.OP_ACCEPT, this);
      done = true;
    } finally {
      if (!done) {
        channel.close();
      }
    }
  }

  public InetSocketAddress address() {
    return new InetSocketAddress(
        channel.socket().getInetAddress(), channel.socket().getLocalPort());
  }

  @Override
  public void ready(SelectionKey key) {
    try {
      SocketChannel client;
      while ((client = channel.accept()) != null) {
        accept(client);
      }
    } catch (IOException e) {
      // Most likely out of file descriptors: pause until the next tick instead of spinning.
      LOG.log(
          Logger.Level.WARNING,
          "ep4j: cannot accept connections (out of file descriptors?): " + e.getMessage());
      this.key.interestOps(0);
    }
  }

  private void accept(SocketChannel client) throws IOException {
    FrameConnection connection;
    try {
      connection = new FrameConnection(reactor, client, new Unauthenticated());
    } catch (IOException e) {
      // The client has already closed the connection.
      client.close();
      return;
    }
    connection.trustBefore(Deadline.after(AUTHENTICATION_TIMEOUT));
    unauthenticated.add(connection);
    if (unauthenticated.size() + refused.size() > maxUnauthenticated) {
      refused.removeIf(FrameConnection::isClosed);
    }
    if (unauthenticated.size() + refused.size() > maxUnauthenticated) {
      (refused.isEmpty() ? unauthenticated : refused).removeFirst().close();
    }
  }

  @Override
  public void tick(long now) {
    refused.removeIf(FrameConnection::isClosed);
    key.interestOps(SelectionKey.OP_ACCEPT);
  }

  @Override
  public void forgive(long now) {}

  @Override
  public void broken(RuntimeException e) {
    LOG.log(Logger.Level.ERROR, "ep4j: accepting a connection failed", e);
  }

  /**
   * Stops listening and closes unauthenticated connections; authenticated ones stay open. Reactor
   * thread only.
   */
  public void close() {
    unauthenticated.forEach(FrameConnection::close);
    unauthenticated.clear();
    refused.clear();
    try {
      channel.close();
    } catch (IOException e) {
      // The descriptor is released in any case.
    }
  }

  /** Authenticates one client. */
  private final class Unauthenticated implements FrameConnection.Listener {
    private final byte[] hostNonce = Challenge.nonce();
    private byte[] clientNonce = new byte[0];

    @Override
    public void frame(FrameConnection connection, byte type, ByteBuffer body) {
      boolean greeted = clientNonce.length > 0;
      if (!greeted && type == Frames.HELLO) {
        greet(connection, body);
      } else if (greeted && type == Frames.PROOF) {
        prove(connection, Frames.rest(body));
      } else {
        malformed(connection, new byte[] {type});
      }
    }

    private void greet(FrameConnection connection, ByteBuffer body) {
      byte[] magic = new byte[Frames.MAGIC.length];
      body.get(magic);
      byte version = body.get();
      if (!Arrays.equals(magic, Frames.MAGIC)) {
        malformed(connection, magic);
      } else if (version != Frames.VERSION) {
        refuse(
            connection,
            JoinRefusedException.Reason.WRONG_PROTOCOL,
            "the client speaks version %d of the group protocol, this side version %d: run one version of ep4j"
                    .formatted(version, Frames.VERSION)
                + " on all ranks");
      } else if (body.get() != purpose.code || body.remaining() != Challenge.NONCE_BYTES) {
        malformed(connection, magic);
      } else {
        clientNonce = Frames.rest(body);
        connection.send(Frames.bytes(Frames.CHALLENGE, hostNonce));
      }
    }

    private void prove(FrameConnection connection, byte[] proof) {
      byte[] expected =
          Challenge.proof(secretKey, purpose, Challenge.Role.GUEST, clientNonce, hostNonce);
      if (!Challenge.same(proof, expected)) {
        refuse(
            connection,
            JoinRefusedException.Reason.UNAUTHENTICATED,
            "the client does not have the secret of this job: set the same EP4J_SECRET on all"
                + " ranks, or give each job its own port");
        return;
      }
      unauthenticated.remove(connection);
      connection.send(
          Frames.bytes(
              Frames.PROVEN,
              Challenge.proof(secretKey, purpose, Challenge.Role.HOST, clientNonce, hostNonce)));
      admit.accept(connection);
    }

    private void refuse(
        FrameConnection connection, JoinRefusedException.Reason reason, String why) {
      closeAfter(connection, Frames.refused(reason, why));
    }

    private void closeAfter(FrameConnection connection, ByteBuffer lastWord) {
      unauthenticated.remove(connection);
      refused.add(connection);
      connection.closeAfter(lastWord);
    }

    @Override
    public void malformed(FrameConnection connection, byte[] start) {
      if (isHttp(start)) {
        closeAfter(connection, ByteBuffer.wrap(NOT_HTTP));
      } else {
        refuse(
            connection,
            JoinRefusedException.Reason.WRONG_PROTOCOL,
            "this is a port of an ep4j job, and the client does not speak its protocol");
      }
    }

    @Override
    public void closed(FrameConnection connection, String why) {
      unauthenticated.remove(connection);
    }
  }

  private static boolean isHttp(byte[] start) {
    String text = new String(start, StandardCharsets.US_ASCII);
    for (String method : new String[] {"GET ", "HEAD", "POST", "PUT ", "OPTI", "DELE", "PRI "}) {
      if (text.startsWith(method)) {
        return true;
      }
    }
    return false;
  }
}
