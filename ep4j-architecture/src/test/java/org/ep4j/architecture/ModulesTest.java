package org.ep4j.architecture;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static org.assertj.core.api.Assertions.assertThat;

import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaModifier;
import com.tngtech.archunit.core.domain.JavaPackage;
import com.tngtech.archunit.library.GeneralCodingRules;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.lang.module.ModuleDescriptor;
import java.net.URI;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.List;
import java.util.TreeSet;
import org.jspecify.annotations.NullMarked;
import org.junit.jupiter.api.Test;

/** Rules for all modules. */
class ModulesTest {
  @Test
  void everyPackageIsNullMarked() {
    TreeSet<String> unmarked = new TreeSet<>();
    for (JavaClass type : Repository.CLASSES) {
      JavaPackage room = type.getPackage();
      boolean marked =
          room.tryGetPackageInfo()
              .map(info -> info.isAnnotatedWith(NullMarked.class))
              .orElse(false);
      if (!marked) {
        unmarked.add(room.getName());
      }
    }
    assertThat(unmarked).as("packages without @NullMarked on their package-info").isEmpty();
  }

  @Test
  void everyExceptionIsUnchecked() {
    classes()
        .that()
        .areAssignableTo(Throwable.class)
        .and()
        .arePublic()
        .should()
        .beAssignableTo(RuntimeException.class)
        .check(Repository.CLASSES);
  }

  @Test
  void optionsAreImmutable() {
    classes()
        .that()
        .haveNameMatching("org\\.ep4j\\.[^.]*(Options|Config)")
        .should()
        .haveOnlyFinalFields()
        .andShould()
        .haveModifier(JavaModifier.FINAL)
        .because("options are immutable; a bad value is refused on construction")
        .check(Repository.CLASSES);
  }

  @Test
  void onlyApplicationsPrintAndExit() {
    var library =
        noClasses()
            .that()
            .resideOutsideOfPackages(
                "org.ep4j.cli..",
                "org.ep4j.bench..",
                "org.ep4j.examples..",
                "org.ep4j.conformance..",
                "org.ep4j.benchmarks..");
    library.should(GeneralCodingRules.ACCESS_STANDARD_STREAMS).check(Repository.CLASSES);
    library.should().callMethod(System.class, "exit", int.class).check(Repository.CLASSES);
    library.should().callMethod(Runtime.class, "halt", int.class).check(Repository.CLASSES);
  }

  /** On a class path only META-INF/services is read, on a module path only the descriptor. */
  @Test
  void servicesAreTheSameOnClassPathAndModulePath() throws IOException {
    for (URL url : Collections.list(loader().getResources("module-info.class"))) {
      ModuleDescriptor module;
      try (InputStream in = url.openStream()) {
        module = ModuleDescriptor.read(in);
      }
      if (!module.name().startsWith("org.ep4j")) {
        continue;
      }
      for (ModuleDescriptor.Provides provides : module.provides()) {
        assertThat(serviceFile(url, provides.service()))
            .as("META-INF/services/%s in module %s", provides.service(), module.name())
            .containsExactlyElementsOf(provides.providers());
      }
    }
  }

  private static List<String> serviceFile(URL moduleInfo, String service) throws IOException {
    String location =
        moduleInfo.toString().replace("module-info.class", "META-INF/services/" + service);
    try (InputStream in = URI.create(location).toURL().openStream()) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8)
          .lines()
          .filter(line -> !line.isBlank())
          .toList();
    } catch (FileNotFoundException e) {
      return List.of();
    }
  }

  private static ClassLoader loader() {
    return ModulesTest.class.getClassLoader();
  }
}
