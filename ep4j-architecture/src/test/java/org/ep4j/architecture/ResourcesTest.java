package org.ep4j.architecture;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noMethods;

import org.junit.jupiter.api.Test;

/** Rule 4: every resource has one owner that closes it; none is left to the garbage collector. */
class ResourcesTest {
  @Test
  void nobodyFinalizes() {
    noMethods().should().haveName("finalize").check(Repository.CLASSES);
  }

  @Test
  void noClassLeavesClosingToTheGarbageCollector() {
    noClasses()
        .should()
        .dependOnClassesThat()
        .haveNameMatching("java\\.lang\\.ref\\.(Cleaner|PhantomReference)(\\$.*)?")
        .check(Repository.CLASSES);
    noClasses()
        .should()
        .callMethod(java.lang.foreign.Arena.class, "ofAuto")
        .because("memory of an automatic arena lives until a collection that no code controls")
        .check(Repository.CLASSES);
  }

  @Test
  void nobodyUsesUnsafe() {
    noClasses()
        .should()
        .dependOnClassesThat()
        .resideInAnyPackage("sun..", "jdk.internal..")
        .check(Repository.CLASSES);
  }
}
