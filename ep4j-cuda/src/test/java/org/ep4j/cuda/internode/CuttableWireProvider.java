package org.ep4j.cuda.internode;

import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import org.ep4j.group.Group;
import org.ep4j.wire.LaneFailure;
import org.ep4j.wire.LaneFailure.Cause;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireProvider;
import org.ep4j.wire.support.GroupWire;
import org.ep4j.wire.tcp.TcpWireProvider;

/** The wire {@code tcp} between threads, whose ranks report paths that a test cuts. */
public final class CuttableWireProvider implements WireProvider {
  /** Name of the wire. */
  public static final String NAME = "cuttable";

  /** The last wire of each rank. */
  private static final Map<Integer, GroupWire> OPEN = new ConcurrentHashMap<>();

  /** Used by the service loader. */
  public CuttableWireProvider() {}

  /** Rank {@code from} reports to rank {@code to} that all lanes between them are lost. */
  public static void reportCut(int from, int to) {
    GroupWire wire = Objects.requireNonNull(OPEN.get(from), "an open wire");
    for (int lane = 0; lane < wire.config().lanes(); lane++) {
      wire.report(new LaneFailure(to, lane, Cause.LOST, "the cable is cut", 0, 0));
    }
  }

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public String unavailableBecause(Group group) {
    return group.inProcess() ? "" : "the ranks are not threads of one JVM";
  }

  @Override
  public Wire open(Group group, WireConfig config) {
    Wire wire = new TcpWireProvider().open(group, config);
    OPEN.put(group.rank(), (GroupWire) wire);
    return wire;
  }
}
