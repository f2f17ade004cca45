# Debian packages, one for each component of the installation: `cpack -G DEB --config build/CPackConfig.cmake`.
#   privgrad           the command, its companions, manual pages, completions and documentation
#   privgrad-plugins   the built-in plugins, the records of their tests, and the libraries that plugins and programs link
#   privgrad-mpi       the plugin for many processes, which needs Open MPI, where one was found
#   privgrad-dev       headers, CMake package, conformance suite and the template of a plugin
#   python3-privgrad   the Python package, where PRIVGRAD_BUILD_PYTHON is on: it uses the files of the other two
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME privgrad)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The PrivGrad Authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "training models under differential privacy")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL program plugins dev)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
# A stripped plugin would have another hash than in the record of its test.
set(CPACK_STRIP_FILES OFF)
# Independent of the umask of the packager: the loader refuses files that other users may write.
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
                                                WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)
set(same "(= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME privgrad)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "privgrad-plugins ${same}")
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION "training models under differential privacy\n The command, its manual pages and its documentation.")
set(CPACK_DEBIAN_PLUGINS_PACKAGE_NAME privgrad-plugins)
set(CPACK_DEBIAN_PLUGINS_DESCRIPTION "plugins and libraries of PrivGrad\n Accountants, schedules, optimizers, aggregators, models, data sources and other\n components, each with the record that it passed its tests.")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME privgrad-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "privgrad ${same}, cmake (>= 3.25)")
set(CPACK_DEBIAN_DEV_PACKAGE_RECOMMENDS "make, g++ | c++-compiler")
set(CPACK_DEBIAN_DEV_DESCRIPTION "development files for plugins of PrivGrad\n Headers, a CMake package, the conformance suite, and a plugin to start from.")
if(TARGET privgrad_plugin_mpi)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
  set(CPACK_DEBIAN_MPI_PACKAGE_NAME privgrad-mpi)
  set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "privgrad-plugins ${same}")
  set(CPACK_DEBIAN_MPI_DESCRIPTION "many processes for PrivGrad, by MPI\n The plugin clusters/mpi, with the record that it passed its tests.")
endif()
if(PRIVGRAD_BUILD_PYTHON)
  list(APPEND CPACK_COMPONENTS_ALL python_module)
  set(CPACK_DEBIAN_PYTHON_MODULE_PACKAGE_NAME python3-privgrad)
  set(CPACK_DEBIAN_PYTHON_MODULE_PACKAGE_DEPENDS "privgrad ${same}, python3 (>= 3.10), python3-numpy")
  set(CPACK_DEBIAN_PYTHON_MODULE_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/python3/postinst
                                                       ${PROJECT_SOURCE_DIR}/packaging/python3/prerm)
  set(CPACK_DEBIAN_PYTHON_MODULE_DESCRIPTION "Python package of PrivGrad\n Plans, runs, accounting, scikit-learn estimators and federated clients.")
endif()
include(CPack)
