package org.ep4j.architecture;

import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAnyPackage;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static org.assertj.core.api.Assertions.assertThat;

import com.tngtech.archunit.core.domain.JavaClass;
import java.io.IOException;
import java.io.InputStream;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassModel;
import java.lang.classfile.MethodModel;
import java.lang.classfile.Opcode;
import java.lang.classfile.instruction.MonitorInstruction;
import java.lang.reflect.AccessFlag;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;

/**
 * Rule 5, as far as class files show it: the rooms that move tokens take no lock, open no stream
 * and format no string. Other tests measure that they do not allocate.
 */
class HotPathTest {
  private static final String[] TOKEN_ROOMS = {"org.ep4j.engine.host.."};

  /** A class of those rooms that runs only while a buffer is opened. */
  private static final String OPENING = "ConfigAgreement";

  /** Methods that run once in a buffer's life, not per token, and may be synchronized. */
  private static final String CLOSE = "close";

  @Test
  void theHostEngineNeitherLocksNorStreamsNorFormats() {
    noClasses()
        .that()
        .resideInAnyPackage(TOKEN_ROOMS)
        .and()
        .doNotHaveSimpleName(OPENING)
        .should()
        .dependOnClassesThat()
        .haveNameMatching("java\\.util\\.(stream\\..*|Formatter|concurrent\\.locks\\..*Lock)")
        .orShould()
        .callMethod(String.class, "format", String.class, Object[].class)
        .orShould()
        .callMethod(String.class, "formatted", Object[].class)
        .check(Repository.CLASSES);
  }

  @Test
  void theHostEngineEntersNoMonitor() throws IOException {
    TreeSet<String> found = new TreeSet<>();
    for (JavaClass type : Repository.CLASSES.that(resideInAnyPackage(TOKEN_ROOMS))) {
      ClassModel model = parse(type.getName());
      for (MethodModel method : model.methods()) {
        if (!method.methodName().equalsString(CLOSE) && entersMonitor(method)) {
          found.add(type.getName() + "." + method.methodName().stringValue());
        }
      }
    }
    assertThat(found).as("methods of the host engine that take a lock").isEmpty();
  }

  private static ClassModel parse(String className) throws IOException {
    String resource = className.replace('.', '/') + ".class";
    try (InputStream in = HotPathTest.class.getClassLoader().getResourceAsStream(resource)) {
      assertThat(in).as(resource).isNotNull();
      return ClassFile.of().parse(in.readAllBytes());
    }
  }

  private static boolean entersMonitor(MethodModel method) {
    return method.flags().has(AccessFlag.SYNCHRONIZED)
        || method
            .code()
            .map(
                code ->
                    code.elementStream()
                        .anyMatch(
                            element ->
                                element instanceof MonitorInstruction monitor
                                    && monitor.opcode() == Opcode.MONITORENTER))
            .orElse(false);
  }
}
