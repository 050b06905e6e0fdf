package org.ep4j.architecture;

import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import java.nio.file.Path;
import java.util.Objects;

/** What the rules look at: the classes of all modules, and the repository. */
final class Repository {
  /** Every class of ep4j, without tests and without what JMH generates. */
  static final JavaClasses CLASSES =
      new ClassFileImporter()
          .withImportOption(ImportOption.Predefined.DO_NOT_INCLUDE_TESTS)
          .withImportOption(location -> !location.contains("jmh_generated"))
          .importPackages("org.ep4j");

  /** What any room may use: the JDK, and the annotations that are gone at run time. */
  static final String[] ALWAYS_ALLOWED = {
    "java..",
    "javax.crypto..",
    "javax.net.ssl..",
    "jdk.incubator.vector..",
    "jdk.jfr..",
    "org.jspecify.."
  };

  private Repository() {}

  /** The directory that holds all modules. Surefire runs a module's tests in its directory. */
  static Path repository() {
    return Objects.requireNonNull(Path.of("").toAbsolutePath().getParent());
  }
}
