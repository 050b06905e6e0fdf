package org.ep4j.cli.top;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;

/**
 * The jobs of this user on this host: processes of Linux show their variables to their own user, so
 * the rendezvous and the secret of a job can be read there.
 */
final class LocalJobs {
  private static final Path PROCESSES = Path.of("/proc");

  private LocalJobs() {}

  /**
   * Finds them.
   *
   * @return the secret of each rendezvous, by HOST:PORT
   */
  static Map<String, String> find() {
    Map<String, String> secrets = new TreeMap<>();
    try (DirectoryStream<Path> all = Files.newDirectoryStream(PROCESSES, "[0-9]*")) {
      for (Path process : all) {
        Map<String, String> variables = variables(process);
        String rendezvous = variables.get(TopCommand.RENDEZVOUS);
        String secret = variables.get(TopCommand.SECRET);
        if (rendezvous != null && secret != null && variables.containsKey("EP4J_RANK")) {
          secrets.put(rendezvous, secret);
        }
      }
    } catch (IOException e) {
      // No such file system here: no job can be found.
      return secrets;
    }
    return secrets;
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
