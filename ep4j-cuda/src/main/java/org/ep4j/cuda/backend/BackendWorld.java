package org.ep4j.cuda.backend;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.function.Function;
import java.util.function.Supplier;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.group.Group;
import org.ep4j.group.GroupException;
import org.ep4j.memory.Participants;
import org.jspecify.annotations.Nullable;

/**
 * The ranks that open a backend together.
 *
 * @param participants the participants
 * @param device device of this rank
 * @param timeout how long ranks wait for each other
 * @param locations locations of the participants, in the order of their group
 */
public record BackendWorld(
    Participants participants, CudaDevice device, Duration timeout, List<RankLocation> locations) {
  private static final Duration MIN_SET_UP = Duration.ofSeconds(60);
  private static final Path BOOT_ID = Path.of("/proc/sys/kernel/random/boot_id");
  private static final String PROCESS =
      HexFormat.of().toHexDigits(new Random().nextLong() ^ ProcessHandle.current().pid());

  /** Copies the locations. */
  public BackendWorld {
    locations = List.copyOf(locations);
  }

  /** Gathers the locations of all ranks; collective. */
  public static BackendWorld gather(
      Participants participants, CudaDevice device, Duration timeout, BackendProbe probe) {
    String place = device.properties().pciBusId() + RankLocation.OF + host();
    RankLocation own = new RankLocation(place, PROCESS, probe.version(), probe.problem());
    List<RankLocation> locations = new ArrayList<>();
    for (byte[] each : participants.group().allGather(own.encoded(), timeout)) {
      locations.add(RankLocation.of(each));
    }
    return new BackendWorld(participants, device, timeout, locations);
  }

  /** Limit of a library for a step of all ranks. */
  public Duration setUpTimeout() {
    return setUpTimeout(timeout);
  }

  /** The limit for buffers with this timeout. */
  public static Duration setUpTimeout(Duration timeout) {
    return timeout.compareTo(MIN_SET_UP) > 0 ? timeout : MIN_SET_UP;
  }

  /** Identity of the host: GPUs of different hosts have the same bus addresses. */
  private static String host() {
    try {
      return Files.readString(BOOT_ID).strip();
    } catch (IOException e) {
      return "unknown host";
    }
  }

  /** Whether the ranks are on several hosts. */
  public boolean spansHosts() {
    return locations.stream().map(RankLocation::host).distinct().count() > 1;
  }

  /** Ranks on the device of this rank, including this rank. */
  public int ranksOnDevice() {
    String own = locations.get(participants.group().rank()).device();
    return (int) locations.stream().filter(location -> location.device().equals(own)).count();
  }

  /** Whether no rank before this one uses the same device. */
  public boolean isFirstOnDevice() {
    return isFirstOnDevice(locations, participants.group().rank());
  }

  static boolean isFirstOnDevice(List<RankLocation> locations, int own) {
    return locations.stream()
            .map(RankLocation::device)
            .toList()
            .indexOf(locations.get(own).device())
        == own;
  }

  /**
   * Whether NVLink connects this rank's device with those of all others, as far as known. Several
   * hosts form a node only if NVLink connects them.
   */
  public boolean isLinked() {
    String here = RankLocation.OF + host();
    return locations.stream()
        .map(RankLocation::device)
        .filter(other -> other.endsWith(here))
        .allMatch(other -> device.isLinked(other.substring(0, other.length() - here.length())));
  }

  /** Two ranks on one device, or null. */
  public int @Nullable [] sharingDevice() {
    return sharing(participants, locations, RankLocation::device);
  }

  /** Two ranks in one process, or null. */
  public int @Nullable [] sharingProcess() {
    return sharing(participants, locations, RankLocation::process);
  }

  static int @Nullable [] sharing(
      Participants participants,
      List<RankLocation> locations,
      Function<RankLocation, String> place) {
    List<String> places = locations.stream().map(place).toList();
    for (int i = 1; i < places.size(); i++) {
      int first = places.indexOf(places.get(i));
      if (first < i) {
        return new int[] {participants.number(first), participants.number(i)};
      }
    }
    return null;
  }

  /** Whether a condition holds on all ranks; collective. */
  public boolean all(boolean here) {
    return all(participants.group(), here, timeout);
  }

  static boolean all(Group group, boolean here, Duration timeout) {
    byte[] no = {0};
    byte[] yes = {1};
    return Arrays.stream(group.allGather(here ? yes : no, timeout)).allMatch(each -> each[0] != 0);
  }

  /**
   * Exchanges the results of a step; collective. Waits longer than the step's limit, because the
   * reason comes from ranks that waited for a library until that limit.
   *
   * @param problem empty, or the failure on this rank
   * @throws EngineUnavailableException on all ranks if the step failed on one; names that rank
   */
  public void agree(String problem) {
    agree(participants, timeout, problem);
  }

  private static void agree(Participants participants, Duration timeout, String problem) {
    byte[][] all =
        participants
            .group()
            .allGather(
                problem.getBytes(StandardCharsets.UTF_8), setUpTimeout(timeout).plus(timeout));
    for (int i = 0; i < all.length; i++) {
      if (all[i].length > 0) {
        throw StepFailure.onOthers(
            participants.number(i), new String(all[i], StandardCharsets.UTF_8));
      }
    }
  }

  /**
   * A step that each rank does by itself and that may take long on one of them; collective. No rank
   * continues before all have done the step, and a failure on one rank is reported on all. If a
   * rank takes longer than {@link #agree} waits, the error on the others names that rank.
   *
   * @param what what the step prepares, for the message if it fails
   * @throws EngineUnavailableException on the other ranks if the step failed on one; names that
   *     rank
   */
  public <T> T together(String what, Supplier<T> step) {
    return together(participants, timeout, what, step);
  }

  /** {@link #together(String, Supplier)} of ranks that have no backend yet. */
  public static <T> T together(
      Participants participants, Duration timeout, String what, Supplier<T> step) {
    T done;
    try {
      done = StepFailure.explained(participants.rank(), what, step);
    } catch (RuntimeException | Error e) { // also memory that runs out
      if (!StepFailure.isTold(e)) {
        broadcast(participants, timeout, StepFailure.told(what, e), e);
      }
      throw e;
    }
    agree(participants, timeout, "");
    return done;
  }

  private static void broadcast(
      Participants participants, Duration timeout, String text, Throwable problem) {
    try {
      agree(participants, timeout, text);
    } catch (EngineUnavailableException e) {
      // The error of agree() describes this rank or another one: this rank throws its own error
      // instead.
    } catch (GroupException e) {
      problem.addSuppressed(e);
    }
  }
}
