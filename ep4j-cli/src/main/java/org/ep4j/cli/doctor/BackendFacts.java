package org.ep4j.cli.doctor;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.ep4j.BackendName;
import org.ep4j.cuda.backend.BackendChoice;
import org.ep4j.cuda.backend.BackendProbe;
import org.ep4j.cuda.backend.BackendProvider;
import org.ep4j.cuda.backend.Backends;

/** The backends that work between the GPUs of this machine, and the backend of buffers. */
final class BackendFacts {
  private static final String TOPIC = "Backends";

  private BackendFacts() {}

  static List<Finding> look(Properties properties, Map<String, String> environment) {
    List<Finding> findings = new ArrayList<>();
    List<BackendProvider> providers = Backends.providers();
    BackendChoice choice = BackendChoice.of(BackendName.AUTO, properties, environment);
    List<String> names = providers.stream().map(BackendProvider::name).toList();
    findings.add(
        names.contains(choice.name())
            ? Finding.found(TOPIC, "backend", choice.name(), choice.source())
            : Finding.warning(
                TOPIC,
                "backend",
                choice.name(),
                choice.source() + ": unknown backend: set it to one of " + names));
    for (BackendProvider provider : providers) {
      BackendProbe probe = provider.probe();
      findings.addAll(probe(provider.name(), probe));
      if (probe.usable()) {
        findings.add(
            Finding.found(TOPIC, provider.name() + " from kernels", "puts", provider.puts()));
      }
    }
    return findings;
  }

  /** Result and advice of a probe. */
  static List<Finding> probe(String name, BackendProbe probe) {
    if (!probe.usable()) {
      return List.of(Finding.missing(TOPIC, name, "cannot be used here", probe.problem()));
    }
    List<Finding> findings = new ArrayList<>();
    String value = probe.version().isEmpty() ? "available" : probe.version();
    findings.add(Finding.found(TOPIC, name, value, probe.library()));
    for (String advice : probe.advice()) {
      findings.add(Finding.warning(TOPIC, name, value, advice));
    }
    return findings;
  }
}
