package org.ep4j.c;

import java.util.Objects;
import org.ep4j.BufferSizes;
import org.ep4j.BufferStatistics;
import org.ep4j.ExpertBuffer;
import org.ep4j.WirePath;
import org.ep4j.c.struct.BufferConfigs;
import org.ep4j.c.struct.BufferStructs;
import org.ep4j.c.struct.Constants;
import org.ep4j.c.struct.Struct;
import org.ep4j.c.struct.Tensors;
import org.ep4j.c.struct.Text;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.ep4j.memory.NativeMemory;
import org.ep4j.routing.ExpertPlacement;

/** Buffers as a whole: {@link ExpertBuffer} without its operations. */
final class BufferFunctions {
  private BufferFunctions() {}

  static int bufferSizes(long config, int ranks, long sizes) {
    BufferStructs.SIZES.require("sizes", sizes);
    BufferSizes reserved = ExpertBuffer.sizes(BufferConfigs.read(config, ranks), ranks);
    NativeMemory.putLong(sizes + BufferStructs.SYMMETRIC_BYTES, reserved.symmetricBytes());
    NativeMemory.putLong(sizes + BufferStructs.PRIVATE_BYTES, reserved.privateBytes());
    NativeMemory.putLong(
        sizes + BufferStructs.LOW_LATENCY_BYTES, reserved.lowLatencyCommunicationBytes());
    NativeMemory.putLong(sizes + BufferStructs.FIRST_USE_BYTES, reserved.firstUseBytes());
    return 0;
  }

  static int bufferOpen(long group, long config, long buffer) {
    Struct.requirePointer("buffer", buffer);
    Group ranks = GroupFunctions.group(group);
    ExpertBuffer opened = ExpertBuffer.open(ranks, BufferConfigs.read(config, ranks.size()));
    NativeMemory.putLong(buffer, BufferObject.add(opened));
    return 0;
  }

  static int bufferRejoin(long group, long config, long buffer) {
    Struct.requirePointer("buffer", buffer);
    Group ranks = GroupFunctions.group(group);
    ExpertBuffer opened = ExpertBuffer.rejoin(ranks, BufferConfigs.read(config, ranks.size()));
    NativeMemory.putLong(buffer, BufferObject.add(opened));
    return 0;
  }

  static int bufferInfo(long buffer, long info) {
    BufferStructs.INFO.require("info", info);
    ExpertBuffer found = BufferObject.of(buffer).buffer();
    BufferConfig config = found.config();
    int rank = found.rank();
    NativeMemory.putInt(info + BufferStructs.INFO_RANK, rank);
    NativeMemory.putInt(info + BufferStructs.INFO_RANKS, found.worldSize());
    NativeMemory.putInt(info + BufferStructs.INFO_EXPERTS, config.experts());
    NativeMemory.putInt(
        info + BufferStructs.INFO_LOCAL_EXPERTS, placement(found).localExperts(rank));
    NativeMemory.putInt(info + BufferStructs.INFO_PARALLELISM, found.parallelism());
    NativeMemory.putInt(info + BufferStructs.INFO_RANKS_PER_NODE, config.ranksPerNode());
    NativeMemory.putLong(info + BufferStructs.INFO_MAX_RECEIVE_ROWS, maxReceiveRows(config));
    Text.write(info + BufferStructs.INFO_ENGINE, BufferStructs.NAME_BYTES, config.engine());
    Text.write(info + BufferStructs.INFO_WIRE, BufferStructs.NAME_BYTES, config.wire());
    Text.write(info + BufferStructs.INFO_BACKEND, BufferStructs.NAME_BYTES, config.backend());
    return 0;
  }

  private static long maxReceiveRows(BufferConfig config) {
    HighThroughputConfig part = config.highThroughput().orElse(null);
    return part == null ? 0 : part.maxReceiveRows().orElse(0);
  }

  static int bufferPlacement(long buffer, long rankOfExpert, int experts) {
    Struct.requirePointer("rank_of_expert", rankOfExpert);
    ExpertPlacement placement = placement(BufferObject.of(buffer).buffer());
    if (experts != placement.experts()) {
      throw new InvalidArgumentException(
          ErrorCode.NATIVE_VALUE,
          "experts",
          Integer.toString(experts),
          "the number of experts of the buffer, " + placement.experts(),
          "ask buffer_info for it");
    }
    for (int expert = 0; expert < experts; expert++) {
      NativeMemory.putInt(rankOfExpert + expert * (long) Integer.BYTES, placement.rankOf(expert));
    }
    return 0;
  }

  private static ExpertPlacement placement(ExpertBuffer buffer) {
    return Objects.requireNonNull(buffer.config().placement(), "placement of an open buffer");
  }

  static int bufferStatistics(long buffer, long statistics) {
    BufferStructs.STATISTICS.require("statistics", statistics);
    BufferStatistics now = BufferObject.of(buffer).buffer().statistics();
    NativeMemory.putLong(statistics + BufferStructs.DISPATCHES, now.dispatches());
    NativeMemory.putLong(statistics + BufferStructs.COMBINES, now.combines());
    NativeMemory.putLong(statistics + BufferStructs.COMBINES_IN_PLACE, now.combinesInPlace());
    NativeMemory.putLong(
        statistics + BufferStructs.LOW_LATENCY_DISPATCHES, now.lowLatencyDispatches());
    NativeMemory.putLong(statistics + BufferStructs.LOW_LATENCY_COMBINES, now.lowLatencyCombines());
    NativeMemory.putLong(statistics + BufferStructs.ROWS_SENT, now.rowsSent());
    NativeMemory.putLong(statistics + BufferStructs.ROWS_RECEIVED, now.rowsReceived());
    NativeMemory.putLong(statistics + BufferStructs.PAYLOAD_BYTES_SENT, now.payloadBytesSent());
    NativeMemory.putLong(statistics + BufferStructs.USED_SYMMETRIC_BYTES, now.symmetricBytes());
    NativeMemory.putLong(statistics + BufferStructs.USED_PRIVATE_BYTES, now.privateBytes());
    NativeMemory.putLong(statistics + BufferStructs.ABANDONED_THREADS, now.abandonedThreads());
    NativeMemory.putLong(statistics + BufferStructs.WIRE_PATHS, now.wirePaths().size());
    return 0;
  }

  static int bufferWirePath(long buffer, int index, long path) {
    BufferStructs.PATH.require("path", path);
    var paths = BufferObject.of(buffer).buffer().statistics().wirePaths();
    if (index < 0 || index >= paths.size()) {
      throw new InvalidArgumentException(
          ErrorCode.NATIVE_VALUE,
          "index",
          Integer.toString(index),
          "less than wire_paths = " + paths.size(),
          "ask buffer_statistics for the number of paths");
    }
    WirePath found = paths.get(index);
    NativeMemory.putInt(path + BufferStructs.PATH_PEER, found.peer());
    NativeMemory.putInt(path + BufferStructs.PATH_QUEUE_PAIR, found.queuePair());
    NativeMemory.putLong(path + BufferStructs.PATH_BYTES, found.bytes());
    Text.write(path + BufferStructs.PATH_PORT, BufferStructs.PORT_BYTES, found.port());
    return 0;
  }

  static int bufferSetParallelism(long buffer, int parallelism) {
    BufferObject.of(buffer).buffer().setParallelism(parallelism);
    return 0;
  }

  static int bufferWarmUp(long buffer) {
    BufferObject.of(buffer).buffer().warmUp();
    return 0;
  }

  static int bufferBarrier(long buffer) {
    BufferObject.of(buffer).buffer().barrier();
    return 0;
  }

  static int bufferReset(long buffer) {
    BufferObject.of(buffer).buffer().reset();
    return 0;
  }

  static int bufferReadmit(long buffer) {
    BufferObject.of(buffer).buffer().readmit();
    return 0;
  }

  static int maskSet(long buffer, int rank, int masked) {
    BufferObject.of(buffer).buffer().updateMask(rank, Constants.flag("masked", masked));
    return 0;
  }

  static int maskGet(long buffer, int rank, long masked) {
    Struct.requirePointer("masked", masked);
    NativeMemory.putInt(masked, BufferObject.of(buffer).buffer().isMasked(rank) ? 1 : 0);
    return 0;
  }

  static int maskRead(long buffer, long mask) {
    Struct.requirePointer("mask", mask);
    BufferObject.of(buffer).buffer().queryMask(Tensors.require("mask", mask));
    return 0;
  }

  static int maskClear(long buffer) {
    BufferObject.of(buffer).buffer().cleanMask();
    return 0;
  }
}
