package org.ep4j.architecture;

import static com.tngtech.archunit.core.domain.JavaClass.Predicates.belongToAnyOf;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.equivalentTo;
import static com.tngtech.archunit.lang.conditions.ArchConditions.dependOnClassesThat;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.constructors;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.fields;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.methods;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;

import com.tngtech.archunit.base.DescribedPredicate;
import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaModifier;
import java.lang.foreign.Linker;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import org.junit.jupiter.api.Test;

/**
 * Rule 3: only binding classes call native functions, and no class above them uses a method handle.
 * A binding class links native functions and has no other purpose.
 */
class NativeCodeTest {
  private static final DescribedPredicate<JavaClass> METHOD_HANDLE =
      equivalentTo(MethodHandle.class);

  private static final DescribedPredicate<JavaClass> BINDING =
      DescribedPredicate.describe(
          "link native functions",
          type ->
              type.getDirectDependenciesFromSelf().stream()
                  .anyMatch(
                      dependency ->
                          belongToAnyOf(Linker.class, SymbolLookup.class)
                              .test(dependency.getTargetClass())));

  @Test
  void onlyBindingClassesTouchMethodHandles() {
    noClasses()
        .that(DescribedPredicate.not(BINDING))
        .should(dependOnClassesThat(METHOD_HANDLE))
        .because("FFM lives in binding classes only")
        .check(Repository.CLASSES);
  }

  @Test
  void bindingClassesHaveNoState() {
    fields()
        .that()
        .areDeclaredInClassesThat(BINDING)
        .should()
        .beStatic()
        .andShould()
        .beFinal()
        .check(Repository.CLASSES);
    constructors()
        .that()
        .areDeclaredInClassesThat(BINDING)
        .should()
        .bePrivate()
        .check(Repository.CLASSES);
    classes().that(BINDING).should().haveModifier(JavaModifier.FINAL).check(Repository.CLASSES);
  }

  @Test
  void bindingClassesShowTypedMethodsOnly() {
    fields().that().haveRawType(METHOD_HANDLE).should().bePrivate().check(Repository.CLASSES);
    methods()
        .that()
        .areNotPrivate()
        .should()
        .notHaveRawReturnType(METHOD_HANDLE)
        .check(Repository.CLASSES);
  }
}
