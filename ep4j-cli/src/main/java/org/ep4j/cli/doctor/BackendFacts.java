package org.ep4j.cli.doctor;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import org.ep4j.config.BackendName;
import org.ep4j.cuda.backend.BackendChoice;
import org.ep4j.cuda.backend.BackendProbe;
import org.ep4j.cuda.backend.BackendProvider;
import org.ep4j.cuda.backend.Backends;

/** The backends that work between the GPUs of this machine, and the backend of buffers. */
final class BackendFacts {
  private static final String TOPIC = "Backends";

  /** The source of a choice that neither a program nor a variable made. */
  private static final String DEFAULT = "default";

  private BackendFacts() {}

  static List<Finding> look(Properties properties, Map<String, String> environment) {
    List<Finding> findings = new ArrayList<>();
    List<BackendProvider> providers = Backends.providers();
    BackendChoice choice = BackendChoice.of(BackendName.AUTO, properties, environment);
    Map<String, BackendProbe> probes = new LinkedHashMap<>();
    providers.forEach(provider -> probes.put(provider.name(), provider.probe()));
    findings.add(chosen(choice, probes));
    for (BackendProvider provider : providers) {
      BackendProbe probe = Objects.requireNonNull(probes.get(provider.name()));
      findings.addAll(probe(provider.name(), probe));
      if (probe.usable()) {
        findings.add(
            Finding.found(TOPIC, provider.name() + " from kernels", "puts", provider.puts()));
      }
    }
    return findings;
  }

  /** The backend that buffers on GPUs take, usable or not. */
  static Finding chosen(BackendChoice choice, Map<String, BackendProbe> probes) {
    BackendProbe probe = probes.get(choice.name());
    if (probe == null) {
      return Finding.warning(
          TOPIC,
          "backend",
          choice.name(),
          choice.source()
              + ": unknown backend: set it to one of "
              + String.join(", ", probes.keySet()));
    }
    if (probe.usable()) {
      return Finding.found(TOPIC, "backend", choice.name(), choice.source());
    }
    String value = choice.name() + ", not usable";
    return choice.source().equals(DEFAULT)
        ? Finding.missing(TOPIC, "backend", value, "default; only buffers on GPUs need one")
        : Finding.warning(
            TOPIC, "backend", value, choice.source() + "; buffers on GPUs cannot be opened");
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
