package org.ep4j.wire.tcp;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.ep4j.Ep4jException;
import org.ep4j.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireException;
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
  /** Maximum number of clients that authenticate at the same time. */
  private static final int MAX_UNAUTHENTICATED = 64;

  private static final Duration PROVING = Duration.ofSeconds(10);
  private static final Duration ACCEPT_PAUSE = Duration.ofMillis(1);

  private final String name;
  private final Group group;
  private final WireConfig config;
  private final @Nullable CarrierService carriers;
  private final Security security;
  private final byte[] ticket = Handshake.random(Handshake.TICKET_BYTES);
  private final long end;
  // Each client writes its own element once; the latch publishes them.
  private final @Nullable Pipe[][] pipes;
  private final CountDownLatch missing;
  private final Semaphore unauthenticated = new Semaphore(MAX_UNAUTHENTICATED);
  private volatile boolean done;

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
    security = config.encrypted() ? Security.tls() : Security.none();
    end = System.nanoTime() + config.timeout().toNanos();
    pipes = new Pipe[group.size()][config.connections()];
    missing = new CountDownLatch((group.size() - 1 - group.rank()) * config.connections());
  }

  Wire open() {
    String error = "";
    ServerSocketChannel server = null;
    boolean opened = false;
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
      error = connect(server, offers);
      CollectiveStep.exchange(group, error, new byte[0], remaining());
      Pipe[][] complete = complete();
      if (carriers != null) {
        load(complete, carriers.open(group, config));
      }
      TcpWire wire = new TcpWire(name, group, config, complete, carriers);
      opened = true;
      return wire;
    } catch (IOException e) {
      throw new WireException(
          ErrorCode.WIRE_CONNECT, "wire '" + name + "' cannot be opened: " + e.getMessage(), e);
    } finally {
      done = true;
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
      server.configureBlocking(false);
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
            "no connection from ranks %s within %d ms: check for a firewall between the hosts"
                .formatted(missingRanks(), config.timeout().toMillis()));
      }
    } catch (IOException e) {
      return ErrorCode.WIRE_CONNECT.message(String.valueOf(e.getMessage()));
    } catch (Ep4jException e) {
      return String.valueOf(e.getMessage());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return ErrorCode.WIRE_CONNECT.message("interrupted while connecting");
    }
    return "";
  }

  private Duration remaining() {
    return Duration.ofNanos(Math.max(1_000_000, end - System.nanoTime()));
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
    SocketChannel channel = SocketChannel.open();
    boolean connected = false;
    try {
      channel
          .socket()
          .connect(
              new InetSocketAddress(host, port), (int) Math.min(60_000, remaining().toMillis()));
      Pipe pipe = security.asClient(prepared(channel));
      new Handshake(group.key(), peersTicket)
          .asClient(pipe, new Handshake.PeerIdentity(group.rank(), index), withDeadline());
      connected = true;
      return pipe;
    } catch (IOException e) {
      throw new IOException(
          "cannot connect to rank %d at %s:%d: %s"
              .formatted(peer, host.getHostAddress(), port, e.getMessage()),
          e);
    } finally {
      if (!connected) {
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
      while (!done) {
        SocketChannel client = server.accept();
        if (client == null) {
          Thread.sleep(ACCEPT_PAUSE);
        } else if (unauthenticated.tryAcquire()) {
          Thread.ofVirtual().start(() -> receive(client));
        } else {
          client.close();
        }
      }
    } catch (IOException e) {
      // The port is closed: all connections exist, or opening has failed.
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
    } catch (IOException e) {
      // An unauthenticated client. A rank of the job has received the reason and reports it.
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

  private Pipe[][] complete() throws IOException {
    Pipe[][] all = new Pipe[pipes.length][];
    for (int peer = 0; peer < all.length; peer++) {
      all[peer] = new Pipe[peer == group.rank() ? 0 : config.connections()];
      for (int i = 0; i < all[peer].length; i++) {
        Pipe pipe = pipes[peer][i];
        if (pipe == null) {
          throw new IOException("connection " + i + " to rank " + peer + " is missing");
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
