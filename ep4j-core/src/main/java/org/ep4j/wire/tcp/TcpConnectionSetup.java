package org.ep4j.wire.tcp;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLException;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.support.CollectiveStep;
import org.ep4j.wire.tcp.pipe.DeadlinePipe;
import org.ep4j.wire.tcp.pipe.Handshake;
import org.ep4j.wire.tcp.pipe.Pipe;
import org.ep4j.wire.tcp.pipe.Security;
import org.jspecify.annotations.Nullable;

/**
 * Connects the ranks: each rank listens at a port that it announces to the others, and connects to
 * the ranks with lower numbers. The port is closed when all connections exist.
 */
final class TcpConnectionSetup {
  /** Unauthenticated clients beside those of the ranks, which may all connect at once. */
  private static final int MORE_UNAUTHENTICATED = 64;

  /** Causes of an exception in a message. */
  private static final int MAX_CAUSES = 4;

  private static final Duration PROVING = Duration.ofSeconds(10);

  /** Pause after a failed accept: most failures pass only when descriptors become free. */
  private static final Duration RETRY_PAUSE = Duration.ofMillis(20);

  private final String name;
  private final Group group;
  private final WireConfig config;
  private final @Nullable CarrierService carriers;

  /** Set when opening begins, before other threads start. */
  private Security security = Security.none();

  private final byte[] ticket = Handshake.random(Handshake.TICKET_BYTES);
  // Each client writes its own element once; the latch publishes them.
  private final @Nullable Pipe[][] pipes;
  private final CountDownLatch missing;

  /** Maximum number of clients that authenticate at the same time. */
  private final Semaphore unauthenticated;

  private volatile boolean done;

  /** Why accepting fails, in this process or in the system; null once it succeeds again. */
  private volatile @Nullable IOException acceptFailure;

  /** The last TLS handshake that a context of the caller refused. */
  private volatile @Nullable SSLException tlsFailure;

  /** The last failure of a connection that neither the network nor the peer explains. */
  private volatile @Nullable RuntimeException unexpected;

  /** When connecting ends; starts when all ranks have announced their ports. */
  private long end;

  /**
   * @param name kind of wire
   * @param carriers transfer most bytes; null if the connections do
   */
  TcpConnectionSetup(
      String name, Group group, WireConfig config, @Nullable CarrierService carriers) {
    this.name = name;
    this.group = group;
    this.config = config;
    this.carriers = carriers;
    pipes = new Pipe[group.size()][config.connections()];
    int clients = (group.size() - 1 - group.rank()) * config.connections();
    missing = new CountDownLatch(clients);
    unauthenticated = new Semaphore(clients + MORE_UNAUTHENTICATED);
  }

  /** How the connections of a wire are secured. */
  private static Security securityOf(WireConfig config) {
    SSLContext own = config.sslContext();
    if (own != null) {
      return Security.tls(own);
    }
    return config.encrypted() ? Security.tls() : Security.none();
  }

  Wire open() {
    String error = CollectiveStep.attempt(() -> security = securityOf(config));
    ServerSocketChannel server = null;
    boolean opened = false;
    @Nullable TcpWire[] made = new TcpWire[1];
    try {
      int port = 0;
      try {
        server = listen();
        port = ((InetSocketAddress) server.getLocalAddress()).getPort();
      } catch (IOException e) {
        error = ErrorCode.WIRE_CONNECT.message("cannot listen: " + e.getMessage());
      }
      byte[] offer = ByteBuffer.allocate(4 + ticket.length).putInt(port).put(ticket).array();
      byte[][] offers = CollectiveStep.exchange(group, error, offer, config.timeout());
      end = System.nanoTime() + config.timeout().toNanos();
      error = connect(server, offers);
      // A rank that fails at once waits here for those that wait for it until the end.
      CollectiveStep.exchange(group, error, new byte[0], config.timeout().multipliedBy(2));
      Pipe[][] complete = complete();
      if (carriers != null) {
        load(complete, carriers.open(group, config));
      }
      error =
          CollectiveStep.attempt(
              () -> made[0] = new TcpWire(name, group, config, complete, carriers));
      CollectiveStep.exchange(group, error, new byte[0], config.timeout());
      opened = true;
      return Objects.requireNonNull(made[0], "all ranks agreed on a wire");
    } finally {
      done = true;
      TcpWire unused = made[0];
      if (unused != null && !opened) {
        unused.close();
      }
      if (carriers != null && !opened) {
        carriers.close();
      }
      close(server, opened);
    }
  }

  private static void load(Pipe[][] pipes, Carrier[][] carriers) {
    for (int peer = 0; peer < pipes.length; peer++) {
      for (int i = 0; i < pipes[peer].length; i++) {
        pipes[peer][i] = new CarriedPipe(pipes[peer][i], carriers[peer][i]);
      }
    }
  }

  private static ServerSocketChannel listen() throws IOException {
    ServerSocketChannel server = ServerSocketChannel.open();
    boolean bound = false;
    try {
      server.bind(new InetSocketAddress(0), 1024);
      bound = true;
      return server;
    } finally {
      if (!bound) {
        server.close();
      }
    }
  }

  /** Connects to the lower ranks and accepts the higher ranks; returns the error, or empty. */
  private String connect(@Nullable ServerSocketChannel server, byte[][] offers) {
    if (server != null && missing.getCount() > 0) {
      Thread.ofPlatform()
          .daemon()
          .name("ep4j-wire-accept-" + group.rank())
          .start(() -> accept(server));
    }
    try {
      for (int peer = 0; peer < group.rank(); peer++) {
        for (int i = 0; i < config.connections(); i++) {
          pipes[peer][i] = call(peer, i, ByteBuffer.wrap(offers[peer]));
        }
      }
      if (!missing.await(remaining().toNanos(), TimeUnit.NANOSECONDS)) {
        return ErrorCode.WIRE_CONNECT.message(
            "no connection from ranks %s within %d ms: %s"
                .formatted(missingRanks(), config.timeout().toMillis(), whyNone()));
      }
    } catch (ClosedByInterruptException | InterruptedException e) {
      Thread.currentThread().interrupt();
      return ErrorCode.WIRE_CONNECT.message("interrupted while connecting");
    } catch (IOException e) {
      return ErrorCode.WIRE_CONNECT.message(String.valueOf(e.getMessage()));
    } catch (Ep4jException e) {
      return String.valueOf(e.getMessage());
    } catch (RuntimeException e) {
      // For example of a trust manager of the caller; the other ranks wait for this rank.
      return ErrorCode.WIRE_FAILED.message(
          "connecting failed unexpectedly (%s: %s)"
              .formatted(e.getClass().getSimpleName(), causes(e)));
    }
    return "";
  }

  private Duration remaining() {
    return Duration.ofNanos(Math.max(1_000_000, end - System.nanoTime()));
  }

  private String whyNone() {
    IOException failure = acceptFailure;
    if (failure != null) {
      return "this rank could not accept connections (%s): its process needs %d connections for this wire; raise its limit of open files (ulimit -n), or lower connections or progressContexts"
          .formatted(failure.getMessage(), (group.size() - 1) * config.connections());
    }
    // What a client that belongs to no rank provokes must not hide that ranks are kept away.
    String firewall = "check for a firewall between the hosts";
    RuntimeException defect = unexpected;
    if (defect != null) {
      return "a connection failed unexpectedly (%s); if no rank was the client, %s"
          .formatted(defect.getClass().getSimpleName() + ": " + causes(defect), firewall);
    }
    SSLException refused = tlsFailure;
    return refused == null
        ? firewall
        : "TLS with a client failed (%s): let the sslContext of every rank hold a key with a certificate that the others trust; if no rank was the client, %s"
            .formatted(causes(refused), firewall);
  }

  /** A message with those of its causes: TLS wraps exceptions of a caller's classes. */
  private static String causes(Throwable failure) {
    StringBuilder text = new StringBuilder(String.valueOf(failure.getMessage()));
    Throwable cause = failure.getCause();
    for (int depth = 0; cause != null && depth < MAX_CAUSES; depth++) {
      text.append(", caused by ").append(cause);
      cause = cause.getCause();
    }
    return text.toString();
  }

  private List<Integer> missingRanks() {
    List<Integer> missing = new ArrayList<>();
    synchronized (pipes) {
      for (int peer = group.rank() + 1; peer < pipes.length; peer++) {
        for (Pipe pipe : pipes[peer]) {
          if (pipe == null && !missing.contains(peer)) {
            missing.add(peer);
          }
        }
      }
    }
    return missing;
  }

  private Pipe call(int peer, int index, ByteBuffer offer) throws IOException {
    InetAddress host = group.address(peer);
    int port = offer.getInt();
    byte[] peersTicket = new byte[Handshake.TICKET_BYTES];
    offer.get(peersTicket);
    SocketChannel channel = null;
    boolean connected = false;
    try {
      channel = SocketChannel.open();
      channel
          .socket()
          .connect(
              new InetSocketAddress(host, port), (int) Math.min(60_000, remaining().toMillis()));
      Pipe pipe = security.asClient(prepared(channel));
      new Handshake(group.key(), peersTicket)
          .asClient(pipe, new Handshake.PeerIdentity(group.rank(), index), withDeadline());
      connected = true;
      return pipe;
    } catch (ClosedByInterruptException e) {
      // Says nothing about the peer.
      throw e;
    } catch (IOException e) {
      throw new IOException(
          "cannot connect to rank %d at %s:%d: %s"
              .formatted(peer, host.getHostAddress(), port, causes(e)),
          e);
    } finally {
      if (!connected && channel != null) {
        channel.close();
      }
    }
  }

  private DeadlinePipe withDeadline() {
    return new DeadlinePipe(System.nanoTime() + Math.min(PROVING.toNanos(), remaining().toNanos()));
  }

  private static SocketChannel prepared(SocketChannel channel) throws IOException {
    channel.configureBlocking(false);
    // Frames are gathered before they are written, so a write must be sent at once.
    channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
    return channel;
  }

  private void accept(ServerSocketChannel server) {
    try {
      // A closed port ends the loop: all connections exist, or opening has failed.
      while (!done && server.isOpen()) {
        try {
          SocketChannel client = server.accept();
          acceptFailure = null;
          if (unauthenticated.tryAcquire()) {
            Thread.ofVirtual().start(() -> receive(client));
          } else {
            client.close();
          }
        } catch (IOException e) {
          // Out of descriptors or of memory, or a client that has gone: later clients may succeed.
          acceptFailure = e;
          Thread.sleep(RETRY_PAUSE);
        }
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private void receive(SocketChannel client) {
    boolean admitted = false;
    try {
      Pipe pipe = security.asHost(prepared(client));
      new Handshake(group.key(), ticket)
          .asHost(pipe, identity -> take(identity, pipe), withDeadline());
      missing.countDown();
      admitted = true;
    } catch (SSLException e) {
      // By default any certificate is good: then it is a client that does not belong to the job.
      tlsFailure = config.sslContext() == null ? null : e;
    } catch (IOException e) {
      // An unauthenticated client. A rank of the job has received the reason and reports it.
    } catch (RuntimeException e) {
      unexpected = e;
    } finally {
      unauthenticated.release();
      if (!admitted) {
        try {
          client.close();
        } catch (IOException e) {
          // The connection is closed in any case.
        }
      }
    }
  }

  private boolean take(Handshake.PeerIdentity identity, Pipe pipe) {
    boolean expected =
        identity.rank() > group.rank()
            && identity.rank() < group.size()
            && identity.index() >= 0
            && identity.index() < config.connections();
    synchronized (pipes) {
      if (!expected || pipes[identity.rank()][identity.index()] != null || done) {
        return false;
      }
      pipes[identity.rank()][identity.index()] = pipe;
      return true;
    }
  }

  private Pipe[][] complete() {
    Pipe[][] all = new Pipe[pipes.length][];
    for (int peer = 0; peer < all.length; peer++) {
      all[peer] = new Pipe[peer == group.rank() ? 0 : config.connections()];
      for (int i = 0; i < all[peer].length; i++) {
        Pipe pipe = pipes[peer][i];
        if (pipe == null) {
          throw new IllegalStateException(
              "all ranks agreed, but connection " + i + " to rank " + peer + " is missing");
        }
        all[peer][i] = pipe;
      }
    }
    return all;
  }

  private void close(@Nullable ServerSocketChannel server, boolean opened) {
    try {
      if (server != null) {
        server.close();
      }
      synchronized (pipes) {
        for (@Nullable Pipe[] toPeer : pipes) {
          for (Pipe pipe : toPeer) {
            if (pipe != null && !opened) {
              pipe.channel().close();
            }
          }
        }
      }
    } catch (IOException e) {
      // The sockets are released in any case.
    }
  }
}
