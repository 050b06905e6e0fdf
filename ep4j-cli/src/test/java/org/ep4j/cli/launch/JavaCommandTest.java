package org.ep4j.cli.launch;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class JavaCommandTest {
  @ParameterizedTest
  @ValueSource(
      strings = {
        "-cp a.jar Main -p 80",
        "--class-path a.jar Main -p 80",
        "--enable-preview Main -p 80",
        "-ea @options Main --module-path 80",
        "--add-modules java.sql Main.java"
      })
  void aProgramOnTheClassPathMayCallNativeCode(String arguments) {
    assertThat(JavaCommand.program(List.of(arguments.split(" ", -1))))
        .contains("--enable-native-access=ALL-UNNAMED");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "-p mods -m app/Main",
        "-cp a.jar --module-path=mods -m app/Main",
        "--add-modules java.sql -p mods -m app/Main",
        "@options -p mods -m app/Main"
      })
  void theModulesOfEp4jOnAModulePathMayCallNativeCode(String arguments) {
    assertThat(JavaCommand.program(List.of(arguments.split(" ", -1))))
        .anyMatch(argument -> argument.startsWith("--enable-native-access=org.ep4j,"));
  }
}
