package org.ep4j.c;

import java.util.Arrays;
import org.ep4j.RoutingCounter;
import org.ep4j.RoutingCounts;
import org.ep4j.c.struct.ObjectTable;
import org.ep4j.c.struct.Struct;
import org.ep4j.c.struct.Tensors;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.execution.DeviceStream;
import org.ep4j.memory.NativeMemory;
import org.ep4j.routing.Routing;

/** Counts of routings without a buffer: {@link RoutingCounter}. */
final class RoutingCounterFunctions {
  private static final int HOST = -1;

  private RoutingCounterFunctions() {}

  /** A counter, and whether it counts on a device. */
  record CounterObject(RoutingCounter counter, boolean onDevice) {}

  static int routingCounterOpen(int device, long nodeOfRank, int ranks, long counter) {
    Struct.requirePointer("node_of_rank", nodeOfRank);
    Struct.requirePointer("counter", counter);
    if (ranks < 1 || device < HOST) {
      throw new InvalidArgumentException(
          ErrorCode.NATIVE_VALUE,
          ranks < 1 ? "ranks" : "device",
          Integer.toString(ranks < 1 ? ranks : device),
          ranks < 1 ? "at least 1" : "EP4J_HOST (-1) or the ordinal of a GPU",
          "correct it");
    }
    var nodes = new int[ranks];
    Arrays.setAll(nodes, r -> NativeMemory.getInt(nodeOfRank + r * (long) Integer.BYTES));
    boolean onDevice = device != HOST;
    RoutingCounter opened =
        onDevice ? RoutingCounter.onDevice(device, nodes) : RoutingCounter.onHost(nodes);
    NativeMemory.putLong(
        counter,
        ObjectTable.PROCESS.add(new CounterObject(opened, onDevice), ObjectTable.NO_OWNER));
    return 0;
  }

  static int routingCounterCount(long counter, long topkIdx, long stream, long counts) {
    ThroughputFunctions.LAYOUT.requireInput("counts", counts);
    Struct.requirePointer("topk_idx", topkIdx);
    CounterObject found =
        ObjectTable.PROCESS.get("counter", counter, CounterObject.class, "an open counter");
    Routing routing = Routing.of(Tensors.require("topk_idx", topkIdx));
    RoutingCounts to = ThroughputFunctions.counts("counts", counts);
    if (found.onDevice()) {
      found.counter().count(routing, to, new DeviceStream(stream));
    } else {
      found.counter().count(routing, to);
    }
    return 0;
  }
}
