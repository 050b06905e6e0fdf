package org.ep4j.cli.doctor;

import java.io.IOException;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.ep4j.cli.text.Units;
import org.ep4j.error.FileProblem;
import org.ep4j.memory.SymmetricMemory;

/** Main memory, and the file system of shared memory. */
final class MemoryFacts {
  private static final String TOPIC = "Memory";
  private static final Path MEMINFO = Path.of("/proc/meminfo");
  private static final Path HUGE = Path.of("/sys/kernel/mm/transparent_hugepage");

  // The regions of `./ep4j bench` with its defaults. Less memory requires fewer tokens.
  private static final long COMFORTABLE = 4L << 30;

  private MemoryFacts() {}

  static List<Finding> look(Map<String, String> environment) {
    List<Finding> findings = new ArrayList<>();
    long total = SystemFiles.kilobytes(MEMINFO, "MemTotal").orElse(0L);
    long free = SystemFiles.kilobytes(MEMINFO, "MemAvailable").orElse(0L);
    findings.add(
        Finding.found(
            TOPIC, "main memory", Units.bytes(total) + ", available " + Units.bytes(free), ""));
    Cgroup.line("memory.max")
        .filter(limit -> !limit.equals("max"))
        .ifPresent(
            limit ->
                findings.add(
                    Finding.warning(
                        TOPIC,
                        "cgroup limit",
                        Units.bytes(Long.parseLong(limit)),
                        "applies to the regions of all ranks; above the limit the kernel kills a"
                            + " rank")));
    findings.add(shared(environment));
    findings.add(hugePages());
    return findings;
  }

  private static Finding shared(Map<String, String> environment) {
    Path directory = SymmetricMemory.directory(environment);
    if (!Files.isDirectory(directory)) {
      return Finding.missing(
          TOPIC,
          directory.toString(),
          "not a directory",
          "ranks in processes need it: mount a tmpfs there, or name another directory in"
              + " EP4J_SHM_DIR; ranks in threads do not need it");
    }
    try {
      FileStore store = Files.getFileStore(directory);
      String value =
          "%s, total %s, free %s, mode %s"
              .formatted(
                  store.type(),
                  Units.bytes(store.getTotalSpace()),
                  Units.bytes(store.getUsableSpace()),
                  PosixFilePermissions.toString(Files.getPosixFilePermissions(directory)));
      if (!Files.isWritable(directory)) {
        return Finding.warning(
            TOPIC, directory.toString(), value, "not writable: ranks in processes cannot share");
      }
      if (store.getUsableSpace() < COMFORTABLE) {
        return Finding.warning(
            TOPIC,
            directory.toString(),
            value,
            "small for large batches; in a container raise --shm-size, elsewhere remount with"
                + " size=");
      }
      boolean tmpfs = store.type().equals("tmpfs");
      return tmpfs
          ? Finding.found(TOPIC, directory.toString(), value, "shared regions of processes")
          : Finding.warning(
              TOPIC, directory.toString(), value, "not a tmpfs: rows are written to a disk");
    } catch (IOException e) {
      return Finding.warning(TOPIC, directory.toString(), "cannot be examined", FileProblem.of(e));
    }
  }

  private static Finding hugePages() {
    String anonymous = chosen(HUGE.resolve("enabled"));
    String shared = chosen(HUGE.resolve("shmem_enabled"));
    String value = "threads " + anonymous + ", processes (shmem) " + shared;
    return shared.equals("never") || shared.equals("deny")
        ? Finding.warning(
            TOPIC,
            "transparent huge pages",
            value,
            "first touch of shared regions is slow: write advise to " + HUGE + "/shmem_enabled")
        : Finding.found(TOPIC, "transparent huge pages", value, "");
  }

  private static String chosen(Path file) {
    String line = SystemFiles.line(file).orElse("[unknown]");
    int start = line.indexOf('[');
    int end = line.indexOf(']');
    return start < 0 || end < start ? line : line.substring(start + 1, end);
  }
}
