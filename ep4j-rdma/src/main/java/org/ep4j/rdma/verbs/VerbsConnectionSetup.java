package org.ep4j.rdma.verbs;

import static java.util.Objects.requireNonNull;

import java.nio.ByteBuffer;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.rdma.verbs.ports.PortChoice;
import org.ep4j.rdma.verbs.ports.RdmaPorts;
import org.ep4j.rdma.verbs.ports.RdmaSettings;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireException;
import org.ep4j.wire.support.CollectiveStep;
import org.jspecify.annotations.Nullable;

/**
 * Connects the ranks with four exchanges over the group: usable ports, closest first; settings;
 * addresses of queue pairs; and the confirmation that all are connected, so that no rank sends
 * before the other end can receive. Addresses and keys are exchanged over the group, which
 * authenticates its members.
 */
final class VerbsConnectionSetup {
  private final Group group;
  private WireConfig config;
  private final RdmaSettings settings;
  private final int localRank;
  private @Nullable VerbsResources resources;
  private @Nullable Wire wire;

  VerbsConnectionSetup(Group group, WireConfig config, RdmaSettings settings, int localRank) {
    this.group = group;
    this.settings = settings.with(config.options());
    this.config = config.with(this.settings.applied(config.options()));
    this.localRank = localRank;
  }

  Wire open() {
    if (config.encrypted()) {
      throw new WireException(
          ErrorCode.VERBS_NO_ENCRYPTION,
          "wire 'verbs' does not encrypt: disable encryption, or use wire 'tcp'");
    }
    PortChoice chosen =
        RdmaPorts.agree(group, config.affinity(), config.timeout(), settings, localRank);
    compare(CollectiveStep.exchange(group, "", plan(chosen), config.timeout()));
    // All ranks have as many ports and queue pairs, so the number is the same.
    config = config.settled(chosen.ports().size() * settings.queuePairsPerPort());
    boolean opened = false;
    try {
      String error =
          CollectiveStep.attempt(
              () ->
                  resources =
                      new VerbsResources(group.rank(), group.size(), config, settings, chosen));
      byte[] offer = resources == null ? new byte[0] : resources.offer();
      byte[][] offers = CollectiveStep.exchange(group, error, offer, config.timeout());
      error = CollectiveStep.attempt(() -> connect(offers));
      CollectiveStep.exchange(group, error, new byte[0], config.timeout());
      opened = true;
      return requireNonNull(wire, "all ranks agreed on a wire");
    } finally {
      if (!opened && resources != null) {
        resources.close();
      }
    }
  }

  private void connect(byte[][] offers) {
    VerbsResources open = requireNonNull(resources, "the exchange reports an error of this rank");
    for (int peer = 0; peer < group.size(); peer++) {
      if (peer != group.rank()) {
        try {
          open.connect(peer, offers[peer], settings);
        } catch (WireException e) {
          throw new WireException(
              ErrorCode.WIRE_CONNECT,
              "cannot connect to rank %d: %s".formatted(peer, e.getMessage()),
              e);
        }
      }
    }
    wire = new VerbsWire(group, config, open, settings.gpuDirect());
  }

  /** The settings that must be equal on all ranks. */
  private byte[] plan(PortChoice chosen) {
    ByteBuffer plan = ByteBuffer.allocate(4 * Integer.BYTES);
    plan.putInt(chosen.ports().size())
        .putInt(settings.queuePairsPerPort())
        .putInt(settings.depth())
        .putInt(settings.gpuDirect() ? 1 : 0);
    return plan.array();
  }

  private void compare(byte[][] plans) {
    ByteBuffer mine = ByteBuffer.wrap(plans[group.rank()]);
    for (int rank = 0; rank < plans.length; rank++) {
      ByteBuffer theirs = ByteBuffer.wrap(plans[rank]);
      same(rank, "ports", theirs.getInt(0), mine.getInt(0), RdmaSettings.HCA);
      same(
          rank,
          "queue pairs per port",
          theirs.getInt(4),
          mine.getInt(4),
          RdmaSettings.QPS_PER_PORT);
      same(
          rank, "requests per queue pair", theirs.getInt(8), mine.getInt(8), RdmaSettings.QP_DEPTH);
      same(
          rank,
          "as GPUDirect (0 is off)",
          theirs.getInt(12),
          mine.getInt(12),
          RdmaSettings.GPUDIRECT);
    }
  }

  private void same(int rank, String what, int theirs, int mine, String variable) {
    if (theirs != mine) {
      throw new WireException(
          ErrorCode.RDMA_SETTINGS_DIFFER,
          "rank %d has %d %s, rank %d has %d: set %s on all hosts"
              .formatted(rank, theirs, what, group.rank(), mine, variable));
    }
  }
}
