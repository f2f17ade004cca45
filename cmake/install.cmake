# What `cmake --install` makes: the program, its plugins, and all that a plugin author elsewhere needs.
#   bin/privgrad   lib/libprivgrad_sdk.so   lib/libprivgrad_inference.so   lib/privgrad/plugins/<room>/   include/privgrad/
#   lib/privgrad/privgrad-fetch   lib/privgrad/privgrad-conformance   lib/privgrad/privgrad-export   lib/cmake/privgrad/
#   share/privgrad/plugin_template/   share/doc/privgrad/ (pages and examples, beside each other as in the sources)
#   share/man/man1/privgrad*.1
#   share/bash-completion/completions/privgrad   share/zsh/site-functions/_privgrad
#
# The build tree has the same layout, and the same run paths. CMake would otherwise fill up the longer ones of the build
# with colons, and an empty entry of a run path is the current folder: the loader would take libraries from there.
set_target_properties(privgrad PROPERTIES INSTALL_RPATH "$ORIGIN/../lib" BUILD_WITH_INSTALL_RPATH ON)
install(TARGETS privgrad EXPORT privgradTargets RUNTIME DESTINATION bin COMPONENT program)
set_target_properties(privgrad-fetch privgrad-conformance PROPERTIES
                      INSTALL_RPATH "$ORIGIN/.." BUILD_WITH_INSTALL_RPATH ON)
install(TARGETS privgrad-fetch privgrad-conformance RUNTIME DESTINATION lib/privgrad COMPONENT program)
if(TARGET privgrad-export) # libonnx and protobuf may be missing
  set_target_properties(privgrad-export PROPERTIES INSTALL_RPATH "$ORIGIN/.." BUILD_WITH_INSTALL_RPATH ON)
  install(TARGETS privgrad-export RUNTIME DESTINATION lib/privgrad COMPONENT program)
endif()

configure_package_config_file(cmake/privgradConfig.cmake.in privgradConfig.cmake INSTALL_DESTINATION lib/cmake/privgrad
                              NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor release may break the ABI, so 0.1 is not compatible with 0.2.
write_basic_package_version_file(privgradConfigVersion.cmake COMPATIBILITY SameMinorVersion)

# What `privgrad gpu check` starts; the build tree has it, too, at the same place.
set(PRIVGRAD_GPU_CHECK ${PROJECT_SOURCE_DIR}/scripts/check-cuda.sh ${PROJECT_SOURCE_DIR}/bench/compare_gpu.py)
install(PROGRAMS ${PRIVGRAD_GPU_CHECK} DESTINATION lib/privgrad COMPONENT program)
file(COPY ${PRIVGRAD_GPU_CHECK} DESTINATION ${PROJECT_BINARY_DIR}/lib/privgrad)

# privgrad_install_sdk(<component> <export> <prefix>): what authors of plugins build with, below the prefix. What the
# export set installs is in it as well.
function(privgrad_install_sdk component export prefix)
  install(EXPORT ${export} FILE privgradTargets.cmake NAMESPACE privgrad:: DESTINATION ${prefix}lib/cmake/privgrad
          COMPONENT ${component})
  install(FILES ${PROJECT_BINARY_DIR}/privgradConfig.cmake ${PROJECT_BINARY_DIR}/privgradConfigVersion.cmake
                ${PROJECT_SOURCE_DIR}/cmake/PrivGradPlugin.cmake ${PROJECT_SOURCE_DIR}/cmake/privgrad_plugin.lds
          DESTINATION ${prefix}lib/cmake/privgrad COMPONENT ${component})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/framework/sdk/include/privgrad DESTINATION ${prefix}include
          COMPONENT ${component})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/plugin_template DESTINATION ${prefix}share/privgrad
          COMPONENT ${component})
endfunction()
privgrad_install_sdk(dev privgradTargets "")

install(FILES LICENSE NOTICE CITATION.cff README.md CONTRIBUTING.md SECURITY.md CHANGELOG.md DESTINATION share/doc/privgrad
        COMPONENT program)
install(DIRECTORY docs DESTINATION share/doc/privgrad COMPONENT program)
install(DIRECTORY examples DESTINATION share/doc/privgrad COMPONENT program PATTERN plugin_template EXCLUDE)

# The manual pages have the text of --help.
set(man_pages ${PROJECT_BINARY_DIR}/share/man/man1)
add_custom_command(OUTPUT ${man_pages}/privgrad.1
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${man_pages}
  COMMAND privgrad man ${man_pages}
  DEPENDS privgrad VERBATIM)
add_custom_target(privgrad_man_pages ALL DEPENDS ${man_pages}/privgrad.1)
install(DIRECTORY ${man_pages} DESTINATION share/man COMPONENT program)

# Shells look for completions in these folders below /usr and /usr/local; with another prefix the
# user must configure the path.
foreach(shell bash zsh)
  add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/completion.${shell}
    COMMAND privgrad completion ${shell} > ${PROJECT_BINARY_DIR}/completion.${shell}
    DEPENDS privgrad VERBATIM)
endforeach()
add_custom_target(privgrad_completions ALL
  DEPENDS ${PROJECT_BINARY_DIR}/completion.bash ${PROJECT_BINARY_DIR}/completion.zsh)
install(FILES ${PROJECT_BINARY_DIR}/completion.bash DESTINATION share/bash-completion/completions RENAME privgrad COMPONENT program)
install(FILES ${PROJECT_BINARY_DIR}/completion.zsh DESTINATION share/zsh/site-functions RENAME _privgrad COMPONENT program)
add_dependencies(privgrad_runtime privgrad_man_pages privgrad_completions)

# The build tree contains the plugin template too, at the same place relative to the program.
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/share/privgrad)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/examples/plugin_template
     ${PROJECT_BINARY_DIR}/share/privgrad/plugin_template SYMBOLIC)
