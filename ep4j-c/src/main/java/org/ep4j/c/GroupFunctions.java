package org.ep4j.c;

import java.time.Duration;
import java.util.List;
import org.ep4j.c.struct.ObjectTable;
import org.ep4j.c.struct.Struct;
import org.ep4j.c.struct.Text;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.ep4j.group.GroupConfig;
import org.ep4j.group.LaunchEnvironment;
import org.ep4j.memory.NativeMemory;
import org.jspecify.annotations.Nullable;

/** Groups: {@link Group} and {@link GroupConfig}. */
final class GroupFunctions {
  /** {@code ep4j_group_config}. */
  static final Struct CONFIG = Struct.named("ep4j_group_config");

  private static final long RANK = CONFIG.int32("rank");
  private static final long RANKS = CONFIG.int32("ranks");
  private static final long HOST = CONFIG.int64("host");
  private static final long SECRET = CONFIG.int64("secret");
  private static final long JOB = CONFIG.int64("job");
  private static final long PORT = CONFIG.int32("port");
  private static final long HOSTING = CONFIG.int32("hosting");
  private static final long JOIN_TIMEOUT = CONFIG.int64("join_timeout_ms");
  private static final long HEARTBEAT = CONFIG.int64("heartbeat_ms");
  private static final long LIVENESS = CONFIG.int64("liveness_ms");

  /** {@code ep4j_group_info}. */
  static final Struct INFO = Struct.named("ep4j_group_info");

  private static final long INFO_RANK = INFO.int32("rank");
  private static final long INFO_RANKS = INFO.int32("ranks");
  private static final long IN_PROCESS = INFO.int32("in_process");
  private static final long INFO_RESERVED = INFO.int32("reserved");
  private static final int JOB_BYTES = 48;
  private static final long JOB_ID = INFO.bytes("job_id", JOB_BYTES);

  /** {@code ep4j_rank_state}. */
  static final Struct STATE = Struct.named("ep4j_rank_state");

  private static final long ALIVE = STATE.int32("alive");
  private static final long INCARNATION = STATE.int32("incarnation");
  private static final long HAS_REPLACEMENT = STATE.int32("has_replacement");
  private static final long STATE_RESERVED = STATE.int32("reserved");
  private static final int ADDRESS_BYTES = 64;
  private static final long ADDRESS = STATE.bytes("address", ADDRESS_BYTES);
  private static final int REPORT_BYTES = 512;
  private static final long REPORT = STATE.bytes("report", REPORT_BYTES);

  /** {@code ep4j_group_config.hosting}. */
  private static final int RANK_0_HOSTS = 0;

  private static final int THIS_PROCESS_HOSTS = 1;
  private static final int OTHER_PROCESS_HOSTS = 2;

  private GroupFunctions() {}

  static int groupFromEnvironment(long group) {
    Struct.requirePointer("group", group);
    return open(group, Group.fromEnvironment());
  }

  static int groupJoin(long config, long group) {
    Struct.requirePointer("group", group);
    return open(group, Group.join(read(config)));
  }

  static int groupRejoin(long config, long group) {
    Struct.requirePointer("group", group);
    return open(group, Group.rejoin(read(config)));
  }

  static int groupInProcess(int ranks, long groups) {
    Struct.requirePointer("groups", groups);
    List<Group> world = Group.inProcess(ranks);
    for (int rank = 0; rank < ranks; rank++) {
      open(groups + rank * (long) Long.BYTES, world.get(rank));
    }
    return 0;
  }

  static int groupInfo(long group, long info) {
    INFO.require("info", info);
    Group found = group(group);
    NativeMemory.putInt(info + INFO_RANK, found.rank());
    NativeMemory.putInt(info + INFO_RANKS, found.size());
    NativeMemory.putInt(info + IN_PROCESS, found.inProcess() ? 1 : 0);
    NativeMemory.putInt(info + INFO_RESERVED, 0);
    Text.write(info + JOB_ID, JOB_BYTES, found.jobId());
    return 0;
  }

  static int groupRankState(long group, int rank, long state) {
    STATE.require("state", state);
    Group found = group(group);
    if (rank < 0 || rank >= found.size()) {
      throw new InvalidArgumentException(
          ErrorCode.NATIVE_VALUE,
          "rank",
          Integer.toString(rank),
          "0.." + (found.size() - 1),
          "name a rank of the group");
    }
    String report = found.deathReport(rank);
    NativeMemory.putInt(state + ALIVE, found.isAlive(rank) ? 1 : 0);
    NativeMemory.putInt(state + INCARNATION, found.incarnation(rank));
    NativeMemory.putInt(state + HAS_REPLACEMENT, found.hasReplacement(rank) ? 1 : 0);
    NativeMemory.putInt(state + STATE_RESERVED, 0);
    Text.write(state + ADDRESS, ADDRESS_BYTES, found.address(rank).getHostAddress());
    Text.write(state + REPORT, REPORT_BYTES, report == null ? "" : report);
    return 0;
  }

  static int groupAllGather(long group, long mine, long bytes, long received, long timeout) {
    Group found = group(group);
    if (bytes < 0 || bytes > Group.MAX_CONTRIBUTION) {
      throw new InvalidArgumentException(
          ErrorCode.NATIVE_VALUE,
          "bytes",
          Long.toString(bytes),
          "0.." + Group.MAX_CONTRIBUTION,
          "gather in parts");
    }
    if (bytes > 0) {
      Struct.requirePointer("mine", mine);
      Struct.requirePointer("received", received);
    }
    byte[] own = new byte[(int) bytes];
    for (int i = 0; i < own.length; i++) {
      own[i] = NativeMemory.getByte(mine + i);
    }
    byte[][] all = found.allGather(own, Duration.ofMillis(timeout));
    for (int rank = 0; rank < all.length; rank++) {
      if (all[rank].length != bytes) {
        // No argument error: those promise that nothing was sent.
        throw new ConfigurationMismatchException(
            ErrorCode.OPERATIONS_DIFFER,
            "group_all_gather: bytes is %d here and %d on rank %d: pass the same number on all ranks"
                .formatted(bytes, all[rank].length, rank));
      }
      for (int i = 0; i < bytes; i++) {
        NativeMemory.putByte(received + rank * bytes + i, all[rank][i]);
      }
    }
    return 0;
  }

  static int groupBarrier(long group, long timeout) {
    group(group).barrier(Duration.ofMillis(timeout));
    return 0;
  }

  static int groupSurvivors(long group, long timeout, long survivors) {
    Struct.requirePointer("survivors", survivors);
    return open(survivors, group(group).survivors(Duration.ofMillis(timeout)));
  }

  static int groupReadmit(long group, long timeout, long ranks, int capacity, long count) {
    Struct.requirePointer("count", count);
    if (capacity > 0) {
      Struct.requirePointer("ranks", ranks);
    }
    int[] readmitted = group(group).readmit(Duration.ofMillis(timeout));
    NativeMemory.putInt(count, readmitted.length);
    for (int i = 0; i < Math.min(capacity, readmitted.length); i++) {
      NativeMemory.putInt(ranks + i * (long) Integer.BYTES, readmitted[i]);
    }
    return 0;
  }

  static int groupFail(long group, long why) {
    String reason = Text.read(why);
    group(group).fail(reason == null ? "no reason" : reason);
    ObjectTable.PROCESS.remove(group);
    return 0;
  }

  /** The open group with a number. */
  static Group group(long number) {
    return ObjectTable.PROCESS.get("group", number, Group.class, "an open group");
  }

  /** Gives the caller a group. */
  private static int open(long result, Group group) {
    NativeMemory.putLong(result, ObjectTable.PROCESS.add(group, ObjectTable.NO_OWNER));
    return 0;
  }

  private static GroupConfig read(long at) {
    CONFIG.requireInput("config", at);
    int rank = NativeMemory.getInt(at + RANK);
    int port = NativeMemory.getInt(at + PORT);
    return GroupConfig.builder()
        .rank(rank)
        .size(NativeMemory.getInt(at + RANKS))
        .rendezvous(text(at + HOST, "127.0.0.1"), port == 0 ? LaunchEnvironment.DEFAULT_PORT : port)
        .secret(text(at + SECRET, ""))
        .job(text(at + JOB, ""))
        .hostsRendezvous(hosts(NativeMemory.getInt(at + HOSTING), rank))
        .joinTimeout(millis(at + JOIN_TIMEOUT, GroupConfig.JOIN_TIMEOUT))
        .heartbeatInterval(millis(at + HEARTBEAT, GroupConfig.HEARTBEAT_INTERVAL))
        .livenessTimeout(millis(at + LIVENESS, GroupConfig.LIVENESS_TIMEOUT))
        .build();
  }

  private static boolean hosts(int hosting, int rank) {
    return switch (hosting) {
      case RANK_0_HOSTS -> rank == 0;
      case THIS_PROCESS_HOSTS -> true;
      case OTHER_PROCESS_HOSTS -> false;
      default ->
          throw new InvalidArgumentException(
              ErrorCode.NATIVE_VALUE,
              "config->hosting",
              Integer.toString(hosting),
              "0 (rank 0), 1 (this process) or 2 (another process)",
              "set one of them");
    };
  }

  private static String text(long at, String otherwise) {
    @Nullable String given = Text.read(NativeMemory.getLong(at));
    return given == null ? otherwise : given;
  }

  private static Duration millis(long at, Duration otherwise) {
    long given = NativeMemory.getLong(at);
    return given == 0 ? otherwise : Duration.ofMillis(given);
  }
}
