package org.ep4j.cli.doctor;

import java.util.ArrayList;
import java.util.List;
import org.ep4j.ExpertBuffer;

/** The JVM that runs ep4j. */
final class JdkFacts {
  private static final String TOPIC = "JDK";
  private static final int NEEDED = 25;

  private JdkFacts() {}

  static List<Finding> look() {
    List<Finding> findings = new ArrayList<>();
    String version = Runtime.version() + ", " + System.getProperty("java.vendor");
    if (Runtime.version().feature() >= NEEDED) {
      findings.add(Finding.found(TOPIC, "Java", version, "at " + System.getProperty("java.home")));
    } else {
      findings.add(
          Finding.warning(TOPIC, "Java", version, "ep4j needs " + NEEDED + ": install it"));
    }
    findings.add(incubator());
    findings.add(nativeAccess());
    findings.add(
        Finding.found(
            TOPIC,
            "processors and heap",
            Runtime.getRuntime().availableProcessors()
                + " processors, at most "
                + org.ep4j.cli.text.Units.bytes(Runtime.getRuntime().maxMemory())
                + " of heap",
            "rows are outside the heap: a small heap is enough"));
    return findings;
  }

  private static Finding incubator() {
    if (ModuleLayer.boot().findModule("jdk.incubator.vector").isPresent()) {
      return Finding.found(
          TOPIC,
          "jdk.incubator.vector",
          "loaded, " + VectorWidth.preferredBits() + "-bit vectors preferred",
          "the host engine uses its vector kernels");
    }
    return Finding.warning(
        TOPIC,
        "jdk.incubator.vector",
        "not loaded",
        "the host engine is several times slower: start java with"
            + " --add-modules jdk.incubator.vector");
  }

  private static Finding nativeAccess() {
    Module core = ExpertBuffer.class.getModule();
    if (core.isNativeAccessEnabled()) {
      return Finding.found(TOPIC, "native access", "enabled", "");
    }
    return Finding.warning(
        TOPIC,
        "native access",
        "not enabled",
        "the JDK warns on first use: start java with --enable-native-access="
            + (core.isNamed()
                ? core.getName()
                    + ",org.ep4j.cuda,org.ep4j.moe,org.ep4j.nccl,org.ep4j.nvshmem,org.ep4j.rdma"
                : "ALL-UNNAMED"));
  }
}
