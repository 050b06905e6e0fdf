package org.ep4j.rdma.ucx;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.nio.ByteBuffer;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireException;
import org.ep4j.wire.support.CollectiveStep;
import org.ep4j.wire.support.InFlightLimit;
import org.jspecify.annotations.Nullable;

/**
 * Connects the ranks: each opens a worker per progress context, exchanges the addresses over the
 * group, creates endpoints to all peers, and sends HELLO. The wire is open when all peers have
 * answered.
 */
final class UcxConnectionSetup {
  /** Data of a rank: its ticket, then the address of each worker. */
  private record Offer(long ticket, List<byte[]> addresses) {}

  private final Group group;
  private final WireConfig config;
  private final Arena arena = Arena.ofShared();
  private final List<UcxProgressContext> progressContexts = new ArrayList<>();
  private @Nullable UcxContext context;
  private @Nullable UcxWire wire;

  UcxConnectionSetup(Group group, WireConfig config) {
    this.group = group;
    this.config = config;
  }

  UcxWire open() {
    boolean opened = false;
    try {
      long ticket = new SecureRandom().nextLong();
      String error = CollectiveStep.attempt(() -> openWorkers(ticket));
      byte[][] offers = CollectiveStep.exchange(group, error, offer(ticket), config.timeout());
      error = CollectiveStep.attempt(() -> connect(offers));
      CollectiveStep.exchange(group, error, new byte[0], config.timeout());
      error = CollectiveStep.attempt(this::greet);
      // A rank that fails at once waits here for those that wait for it until the end.
      CollectiveStep.exchange(group, error, new byte[0], config.timeout().multipliedBy(2));
      UcxWire open = wire;
      if (open == null) {
        throw new IllegalStateException("all ranks agreed on a wire that does not exist");
      }
      opened = true;
      return open;
    } finally {
      if (!opened) {
        abandon();
      }
    }
  }

  private void openWorkers(long ticket) {
    UcxContext opened = UcxContext.open(group.size() * config.connections());
    context = opened;
    for (int i = 0; i < config.progressContexts(); i++) {
      progressContexts.add(
          new UcxProgressContext(opened, group, config.connections(), ticket, arena));
    }
  }

  private byte[] offer(long ticket) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (DataOutputStream out = new DataOutputStream(bytes)) {
      out.writeLong(ticket);
      for (UcxProgressContext progressContext : progressContexts) {
        out.writeInt(progressContext.address().length);
        out.write(progressContext.address());
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return bytes.toByteArray();
  }

  private Offer parse(byte[] bytes) {
    ByteBuffer in = ByteBuffer.wrap(bytes);
    long ticket = in.getLong();
    List<byte[]> addresses = new ArrayList<>();
    while (in.hasRemaining()) {
      byte[] address = new byte[in.getInt()];
      in.get(address);
      addresses.add(address);
    }
    return new Offer(ticket, addresses);
  }

  private void connect(byte[][] offers) {
    UcxContext opened = context;
    if (opened == null) {
      throw new IllegalStateException("no context");
    }
    UcxWire made =
        new UcxWire(
            group, config, opened, progressContexts.toArray(UcxProgressContext[]::new), arena);
    wire = made;
    for (int s = 0; s < progressContexts.size(); s++) {
      UcxProgressContext progressContext = progressContexts.get(s);
      List<UcxConnection> peerConnections = new ArrayList<>();
      for (int peer = 0; peer < group.size(); peer++) {
        if (peer == group.rank()) {
          continue;
        }
        Offer offer = parse(offers[peer]);
        InFlightLimit window = new InFlightLimit(config);
        for (int c = s; c < config.connections(); c += config.progressContexts()) {
          long endpoint =
              progressContext.connect(offer.addresses().get(s), peer * config.connections() + c);
          UcxConnection peerConnection =
              new UcxConnection(
                  made, peer, c, endpoint, offer.ticket(), progressContext.params(), window, arena);
          made.add(peerConnection);
          peerConnections.add(peerConnection);
        }
      }
      progressContext.peerConnections(peerConnections.toArray(UcxConnection[]::new));
    }
  }

  /** Polls until every peer has answered. */
  private void greet() {
    TreeSet<Integer> silent = new TreeSet<>();
    long end = System.nanoTime() + config.timeout().toNanos();
    do {
      if (Thread.currentThread().isInterrupted()) {
        throw new WireException(
            ErrorCode.GROUP_INTERRUPTED,
            "the thread was interrupted while it waited for answers of ranks over UCX");
      }
      if (System.nanoTime() - end > 0) {
        throw new WireException(
            ErrorCode.UCX_NO_ANSWER,
            "ranks %s did not answer over UCX within %d ms: check that UCX_TLS and UCX_NET_DEVICES"
                    .formatted(silent, config.timeout().toMillis())
                + " name networks on which they reach this host");
      }
      silent.clear();
      for (UcxProgressContext progressContext : progressContexts) {
        int _ = progressContext.poll();
        for (UcxConnection peerConnection : progressContext.peerConnections()) {
          if (!peerConnection.isOpen()) {
            throw new WireException(
                ErrorCode.UCX_PEER_UNREACHABLE,
                "rank "
                    + peerConnection.peer()
                    + " cannot be reached: "
                    + peerConnection.failureText());
          }
          if (!peerConnection.greeted()) {
            silent.add(peerConnection.peer());
          }
        }
      }
      Thread.yield();
    } while (!silent.isEmpty());
  }

  private void abandon() {
    if (wire != null) {
      wire.close();
      return;
    }
    progressContexts.forEach(UcxProgressContext::close);
    if (context != null) {
      context.close();
    }
    arena.close();
  }
}
