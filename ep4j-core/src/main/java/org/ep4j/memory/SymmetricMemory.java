package org.ep4j.memory;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import org.ep4j.group.Group;

/**
 * The same number of zeroed bytes on every rank; those of the ranks that share memory are mapped
 * here. Pages take memory when touched. Addresses stay fixed until {@link #close()}.
 *
 * <p>Closing is local: a peer that still uses this rank's bytes keeps them until it closes too.
 */
public sealed interface SymmetricMemory extends AutoCloseable
    permits InProcessMemory, SharedFileMemory {
  /** Variable with the directory of regions that processes share. */
  String DIRECTORY_VARIABLE = "EP4J_SHM_DIR";

  /**
   * Directory in which processes with this environment share memory: {@link #DIRECTORY_VARIABLE},
   * or /dev/shm.
   *
   * @param environment of the process
   */
  static Path directory(Map<String, String> environment) {
    String configured = environment.getOrDefault(DIRECTORY_VARIABLE, "");
    return Path.of(configured.isBlank() ? "/dev/shm" : configured);
  }

  /**
   * Identifies this directory among all of the running system. Containers of one host may have
   * other file systems there, or other directories of one file system.
   *
   * @param environment of the process
   * @throws IOException if there is no such directory
   */
  static String directoryId(Map<String, String> environment) throws IOException {
    Map<String, Object> status = Files.readAttributes(directory(environment), "unix:dev,ino");
    return status.get("dev") + ":" + status.get("ino");
  }

  /**
   * Allocates on every rank; collective. All ranks pass the same plan.
   *
   * @throws org.ep4j.error.Ep4jException if a rank cannot provide or map the memory; names the rank
   */
  static SymmetricMemory allocate(Group group, MemoryPlan plan, Duration timeout) {
    return allocate(group, 0, group.size(), plan, timeout);
  }

  /**
   * Allocates; only the ranks from {@code first} to {@code end} share memory with this one.
   *
   * @param first first of these ranks
   * @param end behind the last of them
   */
  static SymmetricMemory allocate(
      Group group, int first, int end, MemoryPlan plan, Duration timeout) {
    return group.inProcess()
        ? InProcessMemory.allocate(group, first, end, plan.bytes(), timeout)
        : SharedFileMemory.allocate(group, first, end, plan, timeout);
  }

  /**
   * Allocates on a restarted rank whose peers have kept their memory ({@link #readmit}); blocks of
   * departed ranks are private memory here.
   *
   * @param participants the live ranks, all of which take part
   * @throws org.ep4j.error.Ep4jException if a rank cannot provide or map the memory; names the rank
   */
  static SymmetricMemory rejoin(
      Participants participants, int first, int end, MemoryPlan plan, Duration timeout) {
    return SharedFileMemory.rejoin(participants, first, end, plan, timeout);
  }

  /** How much memory ranks in processes can still share, for messages. */
  static String freeText() {
    return SharedFiles.freeText();
  }

  /**
   * Readmits restarted ranks: the other ranks keep their bytes and addresses, and map those of the
   * newcomers at the old addresses. Collective with {@link #rejoin} on the newcomers. The blocks of
   * the newcomers are not used meanwhile.
   *
   * @throws org.ep4j.error.Ep4jException if a rank cannot provide or map the memory; names the
   *     rank, and nothing has changed
   */
  void readmit(Participants participants, Duration timeout);

  /**
   * Leaves the bytes to lost ranks, which may only be stopped, and continues with zeroed bytes at
   * the same addresses that those ranks cannot reach. Collective; the memory is not used meanwhile.
   *
   * @param leaves whether the ranks that share memory with this one do so; the same on all of them
   * @throws org.ep4j.error.Ep4jException if a rank cannot provide or map the memory; names the
   *     rank. Some bytes may then be new and some not, until this is called again
   */
  void leave(Participants participants, boolean leaves, Duration timeout);

  /**
   * Ensures that bytes of this rank have memory, before callers or native code write them: an
   * access to a page that the system cannot provide ends the process. Pages stay until {@link
   * #close()}. Repeated calls with ranges that overlap cost nothing; no two threads call at a time.
   *
   * @param start offset of the first byte
   * @param end offset behind the last byte
   * @throws org.ep4j.error.Ep4jException if the system has no memory left
   */
  void require(long start, long end);

  /** Bytes per rank. */
  long bytes();

  /** Address of the bytes of {@code rank} in this process; 0 if the rank does not share memory. */
  long address(int rank);

  /** The bytes of {@code rank}, bounded. */
  default MemorySegment segment(int rank) {
    return NativeMemory.view(address(rank), bytes());
  }

  /** Whether native addresses of one rank are valid on all ranks. */
  boolean sameAddressSpace();

  @Override
  void close();
}
