package org.ep4j.cli.top;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.ep4j.group.rendezvous.JobFiles;
import org.jspecify.annotations.Nullable;

/**
 * The jobs of this user on this host. The process of a rendezvous describes it in a file. Ranks
 * whose rendezvous is on another host, or whose files are turned off, are found by their variables:
 * processes of Linux show these to their own user.
 */
final class LocalJobs {
  private static final Path PROCESSES = Path.of("/proc");

  private LocalJobs() {}

  /**
   * A job.
   *
   * @param address of its rendezvous on this host; null if its HOST:PORT alone is known
   * @param text tells it from other jobs; begins with HOST:PORT
   */
  record Job(String secret, @Nullable InetSocketAddress address, String text) {}

  /** Finds the jobs, by HOST:PORT of their rendezvous. */
  static Map<String, Job> find() {
    return find(System.getenv(), PROCESSES);
  }

  /**
   * Finds the jobs, by HOST:PORT of their rendezvous.
   *
   * @param environment names the directory of files
   * @param processes the file system of processes
   */
  static Map<String, Job> find(Map<String, String> environment, Path processes) {
    Map<String, Job> jobs = new TreeMap<>();
    Set<Map.Entry<String, String>> known = new HashSet<>();
    for (JobFiles.Job job : JobFiles.find(environment)) {
      jobs.put(job.rendezvous(), new Job(job.secret(), job.address(), job.toString()));
      known.add(Map.entry(job.secret(), job.name()));
    }
    try (DirectoryStream<Path> all = Files.newDirectoryStream(processes, "[0-9]*")) {
      for (Path process : all) {
        Map<String, String> variables = variables(process);
        String rendezvous = variables.get(TopCommand.RENDEZVOUS);
        String secret = variables.get(TopCommand.SECRET);
        // A job may have moved its rendezvous since its ranks got their variables. Jobs of one name
        // that share a secret cannot be told apart so.
        if (rendezvous != null
            && secret != null
            && !known.contains(Map.entry(secret, variables.getOrDefault("EP4J_JOB", "")))
            && variables.containsKey("EP4J_RANK")) {
          jobs.put(rendezvous, new Job(secret, null, rendezvous));
        }
      }
    } catch (IOException e) {
      // No such file system here: files alone tell.
      return jobs;
    }
    return jobs;
  }

  private static Map<String, String> variables(Path process) {
    Map<String, String> variables = new HashMap<>();
    try {
      String text = Files.readString(process.resolve("environ"), StandardCharsets.ISO_8859_1);
      for (String entry : text.split("\0")) {
        int equals = entry.indexOf('=');
        if (equals > 0 && entry.startsWith("EP4J_")) {
          variables.put(entry.substring(0, equals), entry.substring(equals + 1));
        }
      }
    } catch (IOException e) {
      // The process has ended, or belongs to another user.
      variables.clear();
    }
    return variables;
  }
}
